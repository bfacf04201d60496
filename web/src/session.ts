// Signing in and out, and following the stream meanwhile.
import { ApiError, getJson, post } from './api';
import { connect, disconnect, isConnected, session, signedOut, signInProblem } from './store';
import type { Session } from './types';

const kAgainMs = 2000;

/** Shows the sign-in form and forgets what only who was signed in may see. */
function end(problem: string | null): void {
  disconnect();
  session.value = null;
  signInProblem.value = problem;
  signedOut.value = true;
}

function accept(now: Session): void {
  const before = session.value;
  const same = before !== null && before.token === now.token && before.role === now.role;
  session.value = now;
  signInProblem.value = null;
  signedOut.value = false;
  // A stream that only was interrupted goes on; another's, or one of another role, shows other things.
  if (!same || !isConnected()) connect({ reopened: () => void follow(), lost: followSoon });
}

function followSoon(): void {
  setTimeout(() => void follow(), kAgainMs);
}

/** Asks who is signed in and follows the stream, or shows the sign-in form. */
async function follow(): Promise<void> {
  if (signedOut.value) return;
  try {
    accept(await getJson<Session>('/v1/session'));
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      end(session.value ? `Your session has ended: ${error.message}` : signInProblem.value);
    } else {
      followSoon();
    }
  }
}

/** Signs in by the code in the address, if it carries one. Returns whether that worked. */
async function useCode(): Promise<boolean> {
  const match = /[#&]code=([^&]+)/.exec(location.hash);
  if (!match) return false;
  history.replaceState(null, '', location.pathname + location.search);
  try {
    accept(await post<Session>('/v1/login', { code: decodeURIComponent(match[1] ?? '') }));
    return true;
  } catch (error) {
    signInProblem.value = error instanceof Error ? error.message : String(error);
    return false;
  }
}

/** Signs in if the address carries a code, then follows the stream. */
export async function begin(): Promise<void> {
  if (!(await useCode())) await follow();
}

// A link that is pasted while the page is open changes the fragment only.
window.addEventListener('hashchange', () => void useCode());

/** Signs in by a token that was pasted. Throws what the server says against it. */
export async function signIn(token: string): Promise<void> {
  accept(await post<Session>('/v1/login', { token }));
}

/** Ends the session on the server and here. Throws if the server cannot be told. */
export async function signOut(): Promise<void> {
  try {
    await post('/v1/logout');
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 401)) throw error; // else it had ended
  }
  end(null);
}
