import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, getJson, post } from './api';
import { LogPane } from './log_pane';
import { clock, jobs, may, session, show } from './store';
import { StateWord } from './state_word';
import type { Attempt, Job } from './types';
import { age, count, failedSaves, jobLook, span, startNote } from './words';

type Verb = 'suspend' | 'resume' | 'cancel';

function verbsOf(job: Job): Verb[] {
  if (job.state === 'finished' || job.state === 'stopping') return [];
  if (job.state === 'held') return ['resume', 'cancel'];
  return job.state === 'saving' ? ['cancel'] : ['suspend', 'cancel'];
}

function mayControl(job: Job): boolean {
  const who = session.value;
  if (!who || who.role === 'viewer' || !may('jobs')) return false;
  return who.role !== 'user' || who.user === job.user;
}

function Actions({ job }: { job: Job }) {
  const [busy, setBusy] = useState<Verb | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [confirm, setConfirm] = useState(false);
  const run = async (verb: Verb) => {
    setBusy(verb);
    setError(null);
    setConfirm(false);
    try {
      await post(`/v1/jobs/${job.id}/${verb}`);
    } catch (failure) {
      const id = failure instanceof ApiError && failure.requestId ? ` (request ${failure.requestId})` : '';
      setError(`Could not ${verb} ${job.id}: ${(failure as Error).message}${id}. The job is as it was.`);
    }
    setBusy(null);
  };
  if (!mayControl(job)) return null;
  return (
    <div class="actions">
      {verbsOf(job).map((verb) => (
        <button
          key={verb}
          type="button"
          disabled={busy !== null}
          onClick={() => (verb === 'cancel' && !confirm ? setConfirm(true) : void run(verb))}
        >
          {verb === 'cancel' && confirm ? 'Really cancel? It cannot be resumed' : verb}
        </button>
      ))}
      <p role="alert" class="error" hidden={error === null}>
        {error}
      </p>
    </div>
  );
}

/** From one moment of the protocol to the next: notice → parked → saved → released. */
function Handover({ attempt }: { attempt: Attempt }) {
  const moments: [string, string | null][] = [
    ['notice', attempt.notice_at],
    ['parked', attempt.parked_at],
    ['saved', attempt.saved_at],
    ['released', attempt.released_at],
  ];
  const begin = attempt.notice_at;
  if (begin === null) return null;
  return (
    <ol class="handover" aria-label={`How attempt ${attempt.epoch} gave its nodes back`}>
      {moments.map(([name, at]) => (
        <li key={name} class={at ? 'reached' : undefined}>
          <span aria-hidden="true">{at ? '●' : '○'}</span> {name}{' '}
          <span class="detail">
            {at ? (at === begin ? new Date(at).toLocaleTimeString() : `+${((Date.parse(at) - Date.parse(begin)) / 1000).toFixed(1)} s`) : 'not yet'}
          </span>
        </li>
      ))}
    </ol>
  );
}

function AttemptItem({ attempt, now }: { attempt: Attempt; now: number }) {
  const end = attempt.released_at ? Date.parse(attempt.released_at) : now;
  const ran = attempt.running_at ? `ran ${span(end - Date.parse(attempt.running_at))}` : 'starting';
  const nodes = attempt.tasks.map((task) => task.node);
  return (
    <li>
      <b>Attempt {attempt.epoch}</b> <span class="detail">({attempt.start_reason ?? 'started'})</span> on{' '}
      {nodes.slice(0, 4).join(', ')}
      {nodes.length > 4 && ` and ${nodes.length - 4} more`}, {ran}
      {attempt.stop_step !== null && <>, stopped at step {count(attempt.stop_step)}</>}
      {attempt.end_reason && (
        <>
          : {attempt.end_reason}
          {attempt.end_detail && ` (${attempt.end_detail})`}
        </>
      )}
      <Handover attempt={attempt} />
    </li>
  );
}

function Facts({ job }: { job: Job }) {
  const facts: [string, string][] = [
    ['User', job.user],
    ['Project', job.spec?.project || 'default'],
    ['Nodes', count(job.spec?.resources?.nodes ?? 1)],
    ['In this state', age(job.state_since, clock.value)],
    ['Submitted', job.submitted_at ? new Date(job.submitted_at).toLocaleString() : '–'],
  ];
  const inside: [string, string][] = [
    ['Progress', job.step === null ? '–' : `step ${count(job.step)}${job.total_steps ? ` of ${count(job.total_steps)}` : ''}`],
    ['Last checkpoint', job.checkpoint ? `step ${count(job.checkpoint.step)}, ${age(job.checkpoint.at, clock.value)} ago` : 'none yet'],
    ...(job.use
      ? [['Uses', `${(job.use.memory_bytes / 2 ** 30).toFixed(1)} GiB of memory, ${job.use.cpus.toFixed(1)} CPUs on a node`] as [string, string]]
      : []),
    ['Restarts', `${job.hardware_restarts} for hardware, ${job.failure_restarts} after a failure`],
  ];
  if (job.shown !== 'outline') facts.push(...inside);
  if (job.estimate) {
    const starts = startNote(job, clock.value);
    facts.push(['Estimate', starts ? `${starts}, ${job.estimate.basis}` : `none: ${job.estimate.none}`]);
  }
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Adds to what the stream has of a job what was fetched of it. */
function joined(streamed: Job | undefined, fetched: Job | null): Job | null {
  if (!streamed?.shown || !fetched || fetched.shown) return streamed ?? fetched;
  if (streamed.shown === 'no_spec') return { ...streamed, spec: fetched.spec, shown: undefined };
  const { state, state_since, finished_at, outcome, suspensions } = streamed;
  return { ...fetched, state, state_since, finished_at, outcome, suspensions };
}

export function JobPanel({ id }: { id: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const [fetched, setFetched] = useState<Job | null>(null);
  const [error, setError] = useState<string | null>(null);
  const streamed = jobs.value.get(id);
  const job = joined(streamed, fetched);
  useEffect(() => heading.current?.focus(), [id]);
  // Old finished jobs are not in the stream; of another's it has a part only. The server records who
  // looks at another's, so it is asked again only when the state is another.
  const wanted = streamed && !streamed.shown ? null : (streamed?.state_since ?? '');
  useEffect(() => {
    if (wanted === null) return undefined;
    let current = true;
    getJson<Job>(`/v1/jobs/${encodeURIComponent(id)}`).then(
      (answer) => {
        if (!current) return;
        setFetched(answer);
        setError(null);
      },
      (failure: Error) => current && setError(failure.message),
    );
    return () => {
      current = false;
    };
  }, [id, wanted]);
  return (
    <section class="card panel" aria-labelledby="job-heading">
      <div class="panel-head">
        <h2 id="job-heading" tabIndex={-1} ref={heading}>
          {id} {job?.spec?.name}
        </h2>
        {job && <StateWord look={jobLook(job)} />}
        <button type="button" class="close" onClick={() => show(null)} aria-label={`Close ${id}`}>
          ✕
        </button>
      </div>
      {error && <p class="error">Cannot show {job ? `all of ${id}` : id}: {error}.</p>}
      {job && (
        <>
          {fetched?.shown === 'outline' && job.shown === 'outline' && (
            <p class="detail">Only its owner, members of a visible project and operators see more of this job.</p>
          )}
          {job.detail && <p>{job.detail}</p>}
          {job.failed_saves && <p class="error">{failedSaves(job)}; the log of task {job.failed_saves.task} says more.</p>}
          <Actions job={job} />
          <Facts job={job} />
          {job.reasons.length > 0 && (
            <>
              <h3>Why it waits</h3>
              <ol class="reasons">
                {job.reasons.map((reason) => (
                  <li key={reason.code}>
                    {reason.message}
                    {reason.remedy && <span class="remedy">What would help: {reason.remedy}</span>}
                  </li>
                ))}
              </ol>
            </>
          )}
          {job.attempts.length > 0 && job.shown !== 'outline' && (
            <>
              <h3>Attempts</h3>
              <ol class="attempts">
                {job.attempts.map((attempt) => (
                  <AttemptItem key={attempt.epoch} attempt={attempt} now={clock.value} />
                ))}
              </ol>
              <LogPane job={job} />
            </>
          )}
        </>
      )}
    </section>
  );
}
