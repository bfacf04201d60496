import { ClusterStrip, NodeGroups } from './cluster';
import { FaultList } from './faults';
import { JobPanel } from './job_panel';
import { JobTable } from './jobs';
import { clock, link, loaded, openJob, session, signInProblem } from './store';
import { span } from './words';

function LiveIndicator() {
  const now = link.value;
  if (now.kind === 'live') {
    return (
      <span class="link tone-idle">
        <span aria-hidden="true">●</span> live
      </span>
    );
  }
  const since = span(clock.value - now.since);
  return now.kind === 'stale' ? (
    <span class="link tone-warn">
      <span aria-hidden="true">▲</span> data {since} old
    </span>
  ) : (
    <span class="link tone-quiet">
      <span aria-hidden="true">◌</span> {loaded.value ? 'reconnecting' : 'connecting'} {since}
    </span>
  );
}

/** Said once when it changes, not each second. */
function LinkNotice() {
  const kind = link.value.kind;
  const text =
    kind === 'live' || !loaded.value
      ? ''
      : 'The scheduler or this server cannot be reached. Running jobs continue; only this view is out of date.';
  return (
    <p class="notice" role="status" hidden={text === ''}>
      {text}
    </p>
  );
}

function SignIn({ problem }: { problem: string }) {
  return (
    <section class="card sign-in" aria-labelledby="sign-in">
      <h2 id="sign-in">Sign in</h2>
      <p>
        Open the link that <code>tide dev</code> printed. It carries a code that works once, for a short
        time. For a new one, start <code>tide dev</code> again or ask an admin of this cluster.
      </p>
      <p class="detail">What the server said: {problem}</p>
    </section>
  );
}

export function App() {
  return (
    <>
      <header>
        <h1>
          <a href="/">Tide</a>
        </h1>
        <LiveIndicator />
        {session.value && (
          <span class="who">
            {session.value.user} <span class="detail">({session.value.role})</span>
          </span>
        )}
      </header>
      <main>
        <LinkNotice />
        {signInProblem.value ? (
          <SignIn problem={signInProblem.value} />
        ) : !loaded.value ? (
          <p class="detail">Waiting for the cluster’s state.</p>
        ) : (
          <>
            <ClusterStrip />
            {openJob.value && <JobPanel key={openJob.value} id={openJob.value} />}
            <JobTable />
            <NodeGroups />
            <FaultList />
          </>
        )}
      </main>
    </>
  );
}
