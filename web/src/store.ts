// What the page knows: signals fed by the event stream.
import { computed, signal } from '@preact/signals';
import { ApiError, getJson, post } from './api';
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
export const signInProblem = signal<string | null>(null);
export const openJob = signal<string | null>(new URLSearchParams(location.search).get('job'));
/** Once a second, for ages. */
export const clock = signal(Date.now());
setInterval(() => (clock.value = Date.now()), 1000);

const jobNumber = (id: string) => Number(id.slice(2));

/** Newest first: an order that no change of a job alters, so rows never move. */
export const jobList = computed(() =>
  [...jobs.value.values()].sort((a, b) => jobNumber(b.id) - jobNumber(a.id)),
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

function connect() {
  source?.close();
  source = new EventSource('/v1/stream');
  source.addEventListener('open', () => {
    if (loaded.value && link.value.kind === 'connecting') link.value = { kind: 'live' };
  });
  source.addEventListener('snapshot', (event) => applySnapshot(JSON.parse(event.data) as Snapshot));
  source.addEventListener('delta', (event) => applyDelta(JSON.parse(event.data) as Delta));
  source.addEventListener('status', (event) => {
    const { stale, seconds } = JSON.parse(event.data) as { stale: boolean; seconds: number };
    link.value = stale ? { kind: 'stale', since: Date.now() - seconds * 1000 } : { kind: 'live' };
  });
  source.addEventListener('error', () => {
    if (link.value.kind === 'live') link.value = { kind: 'connecting', since: Date.now() };
    // The browser gives up for good after an answer such as 401 or 503; ask why, then try again.
    if (source?.readyState === EventSource.CLOSED) setTimeout(() => void begin(), 2000);
  });
}

async function useCode(): Promise<void> {
  const match = /[#&]code=([^&]+)/.exec(location.hash);
  if (!match) return;
  history.replaceState(null, '', location.pathname + location.search);
  try {
    await post('/v1/login', { code: decodeURIComponent(match[1] ?? '') });
  } catch (error) {
    signInProblem.value = error instanceof Error ? error.message : String(error);
  }
}

/** Signs in if the address carries a code, then follows the stream. */
export async function begin(): Promise<void> {
  await useCode();
  try {
    session.value = await getJson<Session>('/v1/session');
    signInProblem.value = null;
    connect();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      signInProblem.value ??= error.message;
      session.value = null;
      return;
    }
    setTimeout(() => void begin(), 2000);
  }
}

export function show(job: string | null): void {
  openJob.value = job;
  history.pushState(null, '', job ? `?job=${job}` : location.pathname);
}

window.addEventListener('popstate', () => {
  openJob.value = new URLSearchParams(location.search).get('job');
});
