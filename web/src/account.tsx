import { useState } from 'preact/hooks';
import { signOut } from './session';
import { SessionsDialog } from './sessions';
import { session } from './store';

/** Shows who is signed in, with the way out. */
export function Account() {
  const [open, setOpen] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const who = session.value;
  if (!who) return null;
  const leave = () => {
    setError(null);
    signOut().catch((failure: Error) => setError(`Could not sign out: ${failure.message}`));
  };
  return (
    <div class="account">
      <span class="who" title={`role: ${who.role}`}>
        {who.user}
        <span class="visually-hidden">, role {who.role}</span>
      </span>
      <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Sessions
      </button>
      <button type="button" onClick={leave}>
        Sign out
      </button>
      <span role="alert" class="error">
        {error}
      </span>
      {open && <SessionsDialog onClose={() => setOpen(false)} />}
    </div>
  );
}
