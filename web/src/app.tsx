import { Account } from './account';
import { ClusterStrip, NodeGroups } from './cluster';
import { FaultList } from './faults';
import { JobPanel } from './job_panel';
import { JobTable } from './jobs';
import { SignIn } from './sign_in';
import { clock, link, loaded, openJob, signedOut } from './store';
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

export function App() {
  return (
    <>
      <header>
        <h1>
          <a href="/">Tide</a>
        </h1>
        {!signedOut.value && <LiveIndicator />}
        <Account />
      </header>
      <main>
        <LinkNotice />
        {signedOut.value ? (
          <SignIn />
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
