import { useState } from 'preact/hooks';
import { jobList, openJob, show } from './store';
import { StateWord } from './state_word';
import type { Job } from './types';
import { count, failedSaves, jobLook, startNote } from './words';

const kRows = 100;

export function JobLink({ id, children }: { id: string; children?: preact.ComponentChildren }) {
  return (
    <a
      href={`?job=${id}`}
      aria-current={openJob.value === id ? 'true' : undefined}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        show(id);
      }}
    >
      {children ?? id}
    </a>
  );
}

function Progress({ job }: { job: Job }) {
  if (job.step === null) return <span class="detail">–</span>;
  if (job.total_steps === null) return <>{`step ${count(job.step)}`}</>;
  return (
    <span class="progress">
      <progress max={job.total_steps} value={job.step} aria-label={`Progress of ${job.id}`} />
      <span class="steps">
        {count(job.step)} / {count(job.total_steps)}
      </span>
    </span>
  );
}

function Row({ job }: { job: Job }) {
  return (
    <tr class={openJob.value === job.id ? 'open' : undefined}>
      <th scope="row">
        <JobLink id={job.id} />
      </th>
      <td class="name">
        <JobLink id={job.id}>{job.spec?.name ?? job.id}</JobLink>
      </td>
      <td>{job.user}</td>
      <td>
        <StateWord look={jobLook(job)} />
      </td>
      <td class="number">{job.spec?.resources?.nodes ?? '–'}</td>
      <td>{job.spec?.priority ?? '–'}</td>
      <td>
        <Progress job={job} />
      </td>
      <td class="number">{job.loss === null || job.shown === 'outline' ? '–' : job.loss.toFixed(3)}</td>
      <td class="number">
        {job.shown === 'outline' ? job.starts : job.attempts.length} / {job.suspensions}
      </td>
      <td class="note">
        {[failedSaves(job), job.detail ?? job.reasons[0]?.message, startNote(job, Date.now())].filter(Boolean).join(', ')}
      </td>
    </tr>
  );
}

function Empty() {
  return (
    <div class="empty">
      <p>No jobs yet. Paste this into a terminal:</p>
      <pre>
        <code>tide run -- python3 -c 'print("hello")'</code>
      </pre>
      <p class="detail">It appears here at once, with its output one click away.</p>
    </div>
  );
}

export function JobTable() {
  const [rows, setRows] = useState(kRows);
  const all = jobList.value;
  const running = all.filter((job) => job.state === 'running').length;
  return (
    <section class="card" aria-labelledby="jobs">
      <h2 id="jobs">
        Jobs <span class="detail">{running} running</span>
      </h2>
      {all.length === 0 ? (
        <Empty />
      ) : (
        <div class="scroll" role="group" aria-label="Table of jobs" tabIndex={0}>
          <table class="jobs">
            <thead>
              <tr>
                <th scope="col">Job</th>
                <th scope="col">Name</th>
                <th scope="col">User</th>
                <th scope="col">State</th>
                <th scope="col" class="number">
                  Nodes
                </th>
                <th scope="col">Priority</th>
                <th scope="col">Progress</th>
                <th scope="col" class="number">
                  Loss
                </th>
                <th scope="col" class="number">
                  <abbr title="attempts / suspensions">Att. / susp.</abbr>
                </th>
                <th scope="col">Note</th>
              </tr>
            </thead>
            <tbody>
              {all.slice(0, rows).map((job) => (
                <Row key={job.id} job={job} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {all.length > rows && (
        <button type="button" onClick={() => setRows(rows + kRows)}>
          Show {Math.min(kRows, all.length - rows)} more jobs
        </button>
      )}
    </section>
  );
}
