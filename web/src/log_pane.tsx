import { useEffect, useRef, useState } from 'preact/hooks';
import { request } from './api';
import type { Job } from './types';

const kTail = 200;
const kKeptCharacters = 200_000;

/** Progress bars rewrite their line with carriage returns; colours arrive as escape codes. */
export function readable(text: string): string {
  return text
    .replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '')
    .replace(/\r\n/g, '\n')
    .replace(/[^\n]*\r/g, '');
}

async function copy(path: string, signal: AbortSignal, add: (text: string) => void): Promise<void> {
  const reader = (await request(path, { signal })).body?.getReader();
  const decoder = new TextDecoder();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) return;
    add(decoder.decode(value, { stream: true }));
  }
}

function useLog(path: string, attempts: number) {
  const [text, setText] = useState('');
  const [state, setState] = useState('reading');
  useEffect(() => {
    const stop = new AbortController();
    let pending = '';
    let timer = 0;
    setText('');
    setState('reading');
    const flush = () => {
      timer = 0;
      const piece = pending;
      pending = '';
      setText((old) => (old + piece).slice(-kKeptCharacters));
    };
    copy(path, stop.signal, (piece) => {
      pending += piece;
      timer ||= window.setTimeout(flush, 100);
    }).then(
      () => setState('end of the log'),
      (failure: Error) => {
        if (!stop.signal.aborted) setState(`Cannot read the log: ${failure.message}. Training is not affected.`);
      },
    );
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [path, attempts]);
  return { text, state };
}

export function LogPane({ job }: { job: Job }) {
  const [rank, setRank] = useState('0');
  const [follow, setFollow] = useState(job.state !== 'finished');
  const pane = useRef<HTMLPreElement>(null);
  const ranks = (job.spec?.resources?.nodes ?? 1) * (job.spec?.resources?.ranks_per_node ?? 1);
  const path = `/v1/jobs/${job.id}/logs?rank=${rank}&tail=${kTail}${follow ? '&follow=true' : ''}`;
  // A log that follows goes on into the next attempt by itself.
  const { text, state } = useLog(path, follow ? 0 : job.attempts.length);
  useEffect(() => {
    if (pane.current && follow) pane.current.scrollTop = pane.current.scrollHeight;
  }, [text, follow]);
  return (
    <>
      <div class="log-head">
        <h3 id="log">Log</h3>
        <label>
          Rank{' '}
          <select value={rank} onChange={(event) => setRank(event.currentTarget.value)}>
            {ranks > 1 && ranks <= 64 && <option value="all">all</option>}
            {Array.from({ length: Math.min(ranks, 1024) }, (_, i) => (
              <option key={i} value={String(i)}>
                {i}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> follow
        </label>
        <span class="detail">{follow && state === 'reading' ? 'following' : state}</span>
      </div>
      <pre class="log" ref={pane} tabIndex={0} role="region" aria-labelledby="log">
        {readable(text)}
      </pre>
    </>
  );
}
