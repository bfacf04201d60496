"""The rank's side of agreeing on one step with all other ranks, without a collective.

`judge` is a pure function of what the page says; `settle` adds the bounded wait. The argument why no rank passes an
armed step unseen is in docs/rank-protocol.md section 1.
"""

from __future__ import annotations

import enum
import time
from typing import Callable, Optional

from ._page import (ORDER_NONE, ORDER_STOP, PHASE_TRAINING, PHASE_WAITING, STATE_ARMED, STATE_COMMITTED, Order, Page)

PATIENCE_S = 10.0
_FIRST_NAP_S = 0.0002
_LONGEST_NAP_S = 0.002


class Verdict(enum.Enum):
    GO = "go"      # train on
    WAIT = "wait"  # armed at or below this step: the coordinator must commit, raise or withdraw first
    FIRE = "fire"  # committed: carry the order out at this step
    STOP = "stop"  # leave now, save nothing


def judge(order: Order, step: int, ack_seq: int, refused_seq: int) -> Verdict:
    """What a rank that has finished `step` steps does about `order`.

    A refused arming never fires here, not even when it is committed afterwards: this rank has already trained past
    the step at which the others may stop.
    """
    if order.order == ORDER_NONE:
        return Verdict.GO
    if order.order == ORDER_STOP:
        return Verdict.STOP
    if order.seq == ack_seq or order.seq == refused_seq or step < order.at_step:
        return Verdict.GO
    if order.state == STATE_COMMITTED:
        return Verdict.FIRE
    return Verdict.WAIT if order.state == STATE_ARMED else Verdict.GO


def settle(page: Page, step: int, patience_s: float = PATIENCE_S, clock: Callable[[], float] = time.monotonic,
           nap: Callable[[float], None] = time.sleep) -> "tuple[Verdict, Optional[Order]]":
    """Publishes `step` and decides: GO, FIRE or STOP, and the order behind it.

      patience_s: seconds to wait at an armed step for a silent coordinator, per arming.
      Cost: one store, one fence, one load while no order is there.
    """
    page.step = step
    page.fence()
    if page.order == ORDER_NONE:
        return Verdict.GO, None

    waiting_for = None
    give_up_at = 0.0
    nap_s = _FIRST_NAP_S
    try:
        while True:
            order = page.read_order()
            verdict = judge(order, step, page.ack_seq, page.refused_seq)
            if verdict is not Verdict.WAIT:
                return verdict, order
            if waiting_for != order.seq:
                waiting_for, give_up_at = order.seq, clock() + patience_s
                page.phase = PHASE_WAITING
            if clock() >= give_up_at:
                return _refuse(page, order, step)
            nap(nap_s)
            nap_s = min(nap_s * 2, _LONGEST_NAP_S)
    finally:
        if waiting_for is not None:
            page.phase = PHASE_TRAINING


def _refuse(page: Page, order: Order, step: int) -> "tuple[Verdict, Order]":
    """Tells the agent that this arming is given up, then looks once more.

    The agent may have committed just before it could see the refusal; then the others stop here, so this rank takes
    the refusal back and stops with them.
    """
    before = page.refused_seq
    page.refused_seq = order.seq
    page.fence()
    last = page.read_order()
    verdict = judge(last, step, page.ack_seq, before)
    if last.seq == order.seq and verdict is Verdict.FIRE:
        page.refused_seq = before
        return verdict, last
    return (verdict if verdict is Verdict.STOP else Verdict.GO), last
