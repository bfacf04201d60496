// States as people see them: a sign, a word and a tone. The tone is never the only carrier.
import type { Job, Node } from './types';

export type Tone = 'busy' | 'idle' | 'warn' | 'bad' | 'quiet';
export interface Look {
  sign: string;
  word: string;
  tone: Tone;
}

const jobLooks: Record<string, Look> = {
  queued: { sign: '…', word: 'queued', tone: 'quiet' },
  held: { sign: '‖', word: 'held', tone: 'quiet' },
  starting: { sign: '▷', word: 'starting', tone: 'busy' },
  running: { sign: '▶', word: 'running', tone: 'busy' },
  saving: { sign: '↓', word: 'saving', tone: 'warn' },
  stopping: { sign: '◼', word: 'stopping', tone: 'warn' },
  succeeded: { sign: '✔', word: 'succeeded', tone: 'idle' },
  failed: { sign: '✘', word: 'failed', tone: 'bad' },
  cancelled: { sign: '–', word: 'cancelled', tone: 'quiet' },
};

export function jobLook(job: Job): Look {
  const word = job.state === 'finished' ? (job.outcome ?? 'finished') : job.state;
  return jobLooks[word] ?? { sign: '•', word, tone: 'quiet' };
}

export type Group = 'busy' | 'idle' | 'draining' | 'faulty';

export function nodeGroup(node: Node): Group {
  if (node.state === 'ready') return node.job ? 'busy' : 'idle';
  return ['draining', 'drained', 'joining', 'validating', 'probation'].includes(node.state)
    ? 'draining'
    : 'faulty';
}

export const groupLooks: Record<Group, Look> = {
  busy: { sign: '▶', word: 'busy', tone: 'busy' },
  idle: { sign: '○', word: 'idle', tone: 'idle' },
  draining: { sign: '▨', word: 'draining', tone: 'warn' },
  faulty: { sign: '✘', word: 'faulty', tone: 'bad' },
};

export function nodeLook(node: Node): Look {
  const look = groupLooks[nodeGroup(node)];
  if (node.state === 'ready') return look;
  if (node.state === 'lost') return { sign: '?', word: 'lost', tone: 'quiet' };
  return { ...look, word: node.state };
}

export function age(from: string | null, now: number): string {
  return from ? span(now - Date.parse(from)) : '';
}

export function span(milliseconds: number): string {
  const s = Math.max(0, Math.round(milliseconds / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const clockAndDay = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

// "14:35", or "1 Feb, 14:35" when that is not today. The time of where the reader is.
export function moment(at: string, now: number): string {
  const time = new Date(at);
  return (time.toDateString() === new Date(now).toDateString() ? clock : clockAndDay).format(time);
}

export function failedSaves(job: Job): string {
  const failed = job.failed_saves;
  return failed ? `${failed.count} ${failed.count === 1 ? 'save' : 'saves'} failed${failed.message ? `: ${failed.message}` : ''}` : '';
}

// "starts ~14:35 (14:10–16:00)"; empty without an estimate.
export function startNote(job: Job, now: number): string {
  const { earliest, likely, latest } = job.estimate ?? {};
  if (!earliest || !likely || !latest) return '';
  const range = [moment(earliest, now), moment(latest, now)];
  return `starts ~${moment(likely, now)}` + (range[0] === range[1] ? '' : ` (${range[0]}–${range[1]})`);
}

const number = new Intl.NumberFormat('en');
export const count = (value: number) => number.format(value);
