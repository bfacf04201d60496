import { useEffect, useRef, useState } from 'preact/hooks';
import { signIn } from './session';
import { signInProblem } from './store';

/** Shows how to sign in, and takes a token. */
export function SignIn() {
  const field = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const problem = signInProblem.value;
  useEffect(() => field.current?.focus(), []);
  const send = async (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? '';
    if (busy || token === '') return;
    setBusy(true);
    try {
      await signIn(token);
    } catch (error) {
      signInProblem.value = (error as Error).message;
      setBusy(false);
      field.current?.select();
    }
  };
  return (
    <section class="card sign-in" aria-labelledby="sign-in">
      <h2 id="sign-in">Sign in</h2>
      <p id="sign-in-how">
        Run <code>tide ui</code> in a terminal: it prints a link that signs this browser in. Or paste a token from{' '}
        <code>tide token create</code>:
      </p>
      <form onSubmit={(event) => void send(event)}>
        <label for="token">Token</label>
        <div class="actions">
          <input
            id="token"
            type="password"
            ref={field}
            required
            autocomplete="off"
            spellcheck={false}
            placeholder="tide_…"
            aria-describedby="sign-in-how sign-in-problem"
            aria-invalid={problem !== null}
          />
          <button type="submit" class="primary" disabled={busy}>
            Sign in
          </button>
        </div>
        <p id="sign-in-problem" role="alert" class="error">
          {problem}
        </p>
      </form>
    </section>
  );
}
