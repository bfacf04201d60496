// The objects of the API, as far as this page reads them (api/openapi.yaml is the source).

export interface Task {
  index: number;
  node: string;
  state: string | null;
  exit: { reason: string | null; code: number | null; message: string | null } | null;
}

export interface Attempt {
  epoch: number;
  tasks: Task[];
  placed_at: string | null;
  running_at: string | null;
  notice_at: string | null;
  parked_at: string | null;
  saved_at: string | null;
  released_at: string | null;
  stop_step: number | null;
  start_reason: string | null;
  end_reason: string | null;
  end_detail: string | null;
  stalled_at: string | null;
}

export interface Reason {
  code: string;
  message: string;
  remedy: string | null;
}

// When a job that waits will start; the times are null where there is no estimate.
export interface Estimate {
  earliest: string | null;
  likely: string | null;
  latest: string | null;
  basis: string | null;
  none: string | null;
}

export interface Spec {
  name: string;
  project?: string;
  command?: string[];
  priority?: string | number;
  resources?: { nodes?: number; gpus_per_node?: number; ranks_per_node?: number };
}

export interface Job {
  id: string;
  // Of another's job: 'outline' has only owner, name, project, state, size and times; 'no_spec', for
  // operators, all but the spec's command, environment and paths.
  shown?: 'outline' | 'no_spec';
  spec: Spec | null;
  user: string;
  state: string;
  submitted_at: string | null;
  state_since: string | null;
  finished_at: string | null;
  outcome: string | null;
  exit_code: number | null;
  detail: string | null;
  starts: number;
  attempts: Attempt[];
  checkpoint: { step: number; at: string | null } | null;
  failed_saves: { count: number; errno: string | null; message: string | null; task: number } | null; // one after the other
  use: { memory_bytes: number; cpus: number } | null; // on the node that uses most
  suspensions: number;
  hardware_restarts: number;
  failure_restarts: number;
  reasons: Reason[];
  estimate: Estimate | null;
  step: number | null;
  total_steps: number | null;
  loss: number | null;
}

export interface Node {
  id: number;
  name: string;
  zone: string;
  leaf: string;
  state: string;
  reason: string | null;
  actor: string | null;
  job: string | null;
  faults: number;
}

export interface Fault {
  id: number;
  node: string;
  kind: string;
  code: number | null;
  device: string | null;
  text: string | null;
  meaning: string | null;
  action: string | null;
  hold: string | null; // why automation leaves the node in service
  job: string | null;
  first_seen_at: string | null;
  last_seen_at: string | null;
  count: number;
  cleared_at: string | null;
}

export interface Session {
  user: string;
  role: string;
  scopes: string; // "read,jobs"
  token: number;
  kind: 'session' | 'token';
  expires_at: string | null;
  project: string; // where jobs go that name none; "" = default
  projects: { name: string; max_class: string; exec: boolean }[];
}

/** A token of a program, or the session of a browser. */
export interface Token {
  id: number;
  user: string;
  kind: 'session' | 'token';
  label: string;
  scopes: string;
  created_at: string | null;
  expires_at: string | null; // null = never
  used_at: string | null;
  this: boolean; // by which this was asked
}

export interface Snapshot {
  rev: number;
  jobs: Job[];
  nodes: Node[];
  faults: Fault[];
}

export interface Delta {
  rev: number;
  changed: { jobs: Job[]; nodes: Node[]; faults: Fault[] };
  removed: { jobs: string[]; nodes: string[]; faults: number[] };
}
