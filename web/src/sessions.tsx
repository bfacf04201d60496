import { useEffect, useRef, useState } from 'preact/hooks';
import { getJson, request } from './api';
import { signOut } from './session';
import { clock, may } from './store';
import type { Token } from './types';
import { age, moment } from './words';

const kinds: Record<string, string> = { session: 'browser session', token: 'token' };

function Row({ token, end }: { token: Token; end: (token: Token) => void }) {
  const [confirm, setConfirm] = useState(false);
  const kind = kinds[token.kind] ?? token.kind;
  const now = clock.value;
  const used = token.this ? 'now' : token.used_at ? `${age(token.used_at, now)} ago` : '–';
  return (
    <tr>
      <th scope="row">
        {token.label || kind} <span class="detail">{token.label ? kind : `no. ${token.id}`}</span>
        {token.this && <b class="this-one">this one</b>}
      </th>
      <td>{token.created_at ? moment(token.created_at, now) : '–'}</td>
      <td>{used}</td>
      <td>{token.expires_at ? moment(token.expires_at, now) : 'never'}</td>
      <td class="number">
        {may('jobs') && (
          <button
            type="button"
            onClick={() => (token.kind === 'token' && !confirm ? setConfirm(true) : end(token))}
          >
            {confirm ? 'Really end? Programs that use it are shut out' : 'End'}
            <span class="visually-hidden">
              {' '}
              {kind} {token.id}
            </span>
          </button>
        )}
      </td>
    </tr>
  );
}

/** Lists one's tokens and sessions; each can be ended. */
export function SessionsDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [items, setItems] = useState<Token[] | null>(null);
  const [error, setError] = useState<string | null>(null);
  const load = async () => setItems((await getJson<{ items: Token[] }>('/v1/tokens')).items);
  useEffect(() => {
    dialog.current?.showModal();
    load().catch((failure: Error) => setError(`Cannot list them: ${failure.message}.`));
  }, []);
  const end = async (token: Token) => {
    setError(null);
    try {
      if (token.this) return await signOut();
      await request(`/v1/tokens/${token.id}`, { method: 'DELETE' });
      await load();
      dialog.current?.focus(); // the button that had it is gone
    } catch (failure) {
      setError(`Could not end no. ${token.id}: ${(failure as Error).message}.`);
    }
  };
  return (
    <dialog ref={dialog} class="card sessions" aria-labelledby="sessions" tabIndex={-1} onClose={onClose}>
      <div class="panel-head">
        <h2 id="sessions">Sessions and tokens</h2>
        <button type="button" class="close" onClick={() => dialog.current?.close()} aria-label="Close sessions">
          ✕
        </button>
      </div>
      <p class="detail">Whoever has one of these acts as you. End what you do not know.</p>
      <p role="alert" class="error">
        {error}
      </p>
      {items && (
        <div class="scroll" role="group" aria-label="Table of sessions and tokens" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">What</th>
                <th scope="col">Made</th>
                <th scope="col">Last used</th>
                <th scope="col">Expires</th>
                <th scope="col">
                  <span class="visually-hidden">End</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {items.map((token) => (
                <Row key={token.id} token={token} end={(one) => void end(one)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </dialog>
  );
}
