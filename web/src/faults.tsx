import { JobLink } from './jobs';
import { clock, faultList } from './store';
import type { Fault } from './types';
import { age } from './words';

const kinds: Record<string, string> = {
  xid: 'Xid',
  link_down: 'link down',
  failed_starts: 'failed starts',
  black_hole: 'black hole',
  leaf_links: 'links of a leaf',
  breaker: 'circuit breaker',
};

function actionOf(fault: Fault): string {
  const action = (fault.action ?? 'none').replace('_', ' ');
  return fault.hold && fault.cleared_at === null ? `${action}, held by ${fault.hold}` : action;
}

function Row({ fault }: { fault: Fault }) {
  const open = fault.cleared_at === null;
  return (
    <tr>
      <th scope="row">{fault.node}</th>
      <td>
        <span class={`state tone-${open ? 'bad' : 'quiet'}`}>
          <span class="sign" aria-hidden="true">
            {open ? '✘' : '✔'}
          </span>
          {open ? 'open' : 'cleared'}
        </span>
      </td>
      <td>
        {kinds[fault.kind] ?? fault.kind} {fault.code}
      </td>
      <td class="note">
        {fault.meaning ?? fault.text} <span class="detail">{fault.device}</span>
      </td>
      <td>{actionOf(fault)}</td>
      <td>{fault.job ? <JobLink id={fault.job} /> : '–'}</td>
      <td class="number">{fault.count}</td>
      <td class="number">{age(fault.last_seen_at ?? fault.first_seen_at, clock.value)} ago</td>
    </tr>
  );
}

export function FaultList() {
  const all = faultList.value;
  return (
    <section class="card" aria-labelledby="faults">
      <h2 id="faults">
        Faults <span class="detail">{all.filter((fault) => fault.cleared_at === null).length} open</span>
      </h2>
      {all.length === 0 ? (
        <p class="empty">No fault seen. Xid errors and lost links appear here with the job they hit.</p>
      ) : (
        <div class="scroll" role="group" aria-label="Table of faults" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">State</th>
                <th scope="col">Fault</th>
                <th scope="col">Meaning</th>
                <th scope="col">Action</th>
                <th scope="col">Job</th>
                <th scope="col" class="number">
                  Count
                </th>
                <th scope="col" class="number">
                  Last seen
                </th>
              </tr>
            </thead>
            <tbody>
              {all.slice(0, 50).map((fault) => (
                <Row key={fault.id} fault={fault} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
