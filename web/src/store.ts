// What the page knows: signals fed by the event stream and the session.
import { computed, signal } from '@preact/signals';
import type { Delta, Fault, Job, Node, Session, Snapshot } from './types';

export type Link =
  | { kind: 'live' }
  | { kind: 'connecting'; since: number }
  | { kind: 'stale'; since: number };

export const jobs = signal<ReadonlyMap<string, Job>>(new Map());
export const nodes = signal<ReadonlyMap<string, Node>>(new Map());
export const faults = signal<ReadonlyMap<number, Fault>>(new Map());
export const loaded = signal(false);
export const link = signal<Link>({ kind: 'connecting', since: Date.now() });
export const session = signal<Session | null>(null);
/** True once it is known that nobody is signed in. */
export const signedOut = signal(false);
/** What went wrong with signing in, or with the session. */
export const signInProblem = signal<string | null>(null);
export const openJob = signal<string | null>(new URLSearchParams(location.search).get('job'));
/** Once a second, for ages. */
export const clock = signal(Date.now());
setInterval(() => (clock.value = Date.now()), 1000);

const jobNumber = (id: string) => Number(id.slice(2));

/** Tells whether who is signed in, by what they are signed in with, may do that kind of thing. */
export const may = (scope: string) => session.value?.scopes.split(',').includes(scope) ?? false;

const isOwn = (job: Job) => Number(job.user === session.value?.user);

/** One's own first, then newest first: an order that no change of a job alters, so rows never move. */
export const jobList = computed(() =>
  [...jobs.value.values()].sort((a, b) => isOwn(b) - isOwn(a) || jobNumber(b.id) - jobNumber(a.id)),
);
export const nodeList = computed(() =>
  [...nodes.value.values()].sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true })),
);
export const faultList = computed(() => [...faults.value.values()].sort((a, b) => b.id - a.id));

function merge<K, V>(map: ReadonlyMap<K, V>, changed: V[], removed: K[], key: (value: V) => K) {
  if (changed.length === 0 && removed.length === 0) return map;
  const next = new Map(map);
  for (const value of changed) next.set(key(value), value);
  for (const gone of removed) next.delete(gone);
  return next;
}

function applySnapshot(snapshot: Snapshot) {
  jobs.value = new Map(snapshot.jobs.map((job) => [job.id, job]));
  nodes.value = new Map(snapshot.nodes.map((node) => [node.name, node]));
  faults.value = new Map(snapshot.faults.map((fault) => [fault.id, fault]));
  loaded.value = true;
  link.value = { kind: 'live' };
}

function applyDelta({ changed, removed }: Delta) {
  jobs.value = merge(jobs.value, changed.jobs, removed.jobs, (job) => job.id);
  nodes.value = merge(nodes.value, changed.nodes, removed.nodes, (node) => node.name);
  faults.value = merge(faults.value, changed.faults, removed.faults, (fault) => fault.id);
}

let source: EventSource | null = null;

export function isConnected(): boolean {
  return source !== null && source.readyState !== EventSource.CLOSED;
}

/** Stops following and forgets what was shown. */
export function disconnect(): void {
  source?.close();
  source = null;
  loaded.value = false;
  link.value = { kind: 'connecting', since: Date.now() };
  jobs.value = new Map();
  nodes.value = new Map();
  faults.value = new Map();
}

/** Follows the stream. Says when it was opened again by the browser, and when the browser gave up. */
export function connect(on: { reopened: () => void; lost: () => void }): void {
  source?.close();
  const mine = new EventSource('/v1/stream');
  let interrupted = false;
  source = mine;
  mine.addEventListener('open', () => {
    if (loaded.value && link.value.kind === 'connecting') link.value = { kind: 'live' };
    if (interrupted) on.reopened();
    interrupted = false;
  });
  mine.addEventListener('snapshot', (event) => applySnapshot(JSON.parse(event.data) as Snapshot));
  mine.addEventListener('delta', (event) => applyDelta(JSON.parse(event.data) as Delta));
  mine.addEventListener('status', (event) => {
    const { stale, seconds } = JSON.parse(event.data) as { stale: boolean; seconds: number };
    link.value = stale ? { kind: 'stale', since: Date.now() - seconds * 1000 } : { kind: 'live' };
  });
  mine.addEventListener('error', () => {
    interrupted = true;
    if (link.value.kind === 'live') link.value = { kind: 'connecting', since: Date.now() };
    // The browser gives up for good after an answer such as 401 or 503; ask why, then try again.
    if (mine.readyState === EventSource.CLOSED && source === mine) on.lost();
  });
}

export function show(job: string | null): void {
  openJob.value = job;
  history.pushState(null, '', job ? `?job=${job}` : location.pathname);
}

window.addEventListener('popstate', () => {
  openJob.value = new URLSearchParams(location.search).get('job');
});
