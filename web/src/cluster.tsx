import { JobLink } from './jobs';
import { nodeList } from './store';
import { StateWord } from './state_word';
import type { Node } from './types';
import { type Group, groupLooks, nodeGroup, nodeLook } from './words';

const kGroups: Group[] = ['busy', 'idle', 'draining', 'faulty'];

function groupBy<T>(items: T[], key: (item: T) => string): [string, T[]][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const name = key(item);
    groups.set(name, [...(groups.get(name) ?? []), item]);
  }
  return [...groups];
}

function ZoneStrip({ zone, nodes }: { zone: string; nodes: Node[] }) {
  const counts = kGroups.map((group) => ({
    group,
    count: nodes.filter((node) => nodeGroup(node) === group).length,
  }));
  return (
    <div class="zone card">
      <h3>
        Zone {zone} <span class="detail">{nodes.length} nodes</span>
      </h3>
      <div class="bar" aria-hidden="true">
        {counts.map(({ group, count }) => (
          <span class={`part part-${group}`} style={{ flexGrow: count }} hidden={count === 0} />
        ))}
      </div>
      <ul class="legend">
        {counts.map(({ group, count }) => (
          <li>
            <span class={`swatch part-${group}`} aria-hidden="true" />
            <b>{count}</b> {groupLooks[group].word}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function ClusterStrip() {
  const zones = groupBy(nodeList.value, (node) => node.zone);
  return (
    <section aria-labelledby="cluster">
      <h2 id="cluster" class="visually-hidden">
        Cluster
      </h2>
      <div class="zones">
        {zones.map(([zone, nodes]) => (
          <ZoneStrip key={zone} zone={zone} nodes={nodes} />
        ))}
      </div>
    </section>
  );
}

function NodeItem({ node }: { node: Node }) {
  return (
    <li class={`node edge-${nodeLook(node).tone}`}>
      <span class="node-name">{node.name}</span>
      <StateWord look={nodeLook(node)} />
      {node.job && <JobLink id={node.job} />}
      {node.reason && (
        <span class="detail reason">
          {node.reason}
          {node.actor && ` (${node.actor})`}
        </span>
      )}
    </li>
  );
}

export function NodeGroups() {
  const zones = groupBy(nodeList.value, (node) => node.zone);
  return (
    <section class="card" aria-labelledby="nodes">
      <h2 id="nodes">
        Nodes <span class="detail">{nodeList.value.length}</span>
      </h2>
      {zones.length === 0 && (
        <p class="empty">
          No node has joined. Start one on each machine: <code>tide-agent --scheduler ADDRESS</code>
        </p>
      )}
      <div class="zone-columns">
        {zones.map(([zone, nodes]) => (
          <div key={zone}>
            <h3>Zone {zone}</h3>
            {groupBy(nodes, (node) => node.leaf).map(([leaf, members]) => (
              <div key={leaf} class="leaf">
                <h4>{leaf || 'no leaf switch'}</h4>
                <ul class="nodes">
                  {members.map((node) => (
                    <NodeItem key={node.name} node={node} />
                  ))}
                </ul>
              </div>
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}
