// Starts tide-api in front of a scheduler and an agent that play a small cluster.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname;
const build = resolve(process.env.TIDE_BUILD ?? join(here, '../../build/dev'));

// The users of api_demo_upstream, in the order of their tokens' numbers.
const users = ['vera', 'alice', 'ann', 'bob', 'olga', 'adam'];

/** Returns the text of the one token that the user has from the start. */
export function tokenOf(user) {
  return `tide_${users.indexOf(user) + 1}_${createHash('sha256').update(user).digest('hex')}`;
}

async function lineOf(stream, pattern) {
  for await (const line of createInterface({ input: stream })) {
    const match = pattern.exec(line);
    if (match) {
      stream.resume();
      return match;
    }
  }
  throw new Error(`the program ended without a line like ${pattern}`);
}

export class Cluster {
  async start() {
    this.dir = await mkdtemp(join(tmpdir(), 'tide-e2e-'));
    await this.startUpstream();
    this.api = spawn(join(build, 'bin/tide-api'), [
      '--scheduler', `unix:${this.dir}/scheduler.sock`,
      '--listen', '127.0.0.1:0',
      '--web-dir', join(here, '../dist'),
    ], { stdio: ['ignore', 'ignore', 'pipe'] });
    const [, port] = await lineOf(this.api.stderr, /port: (\d+)/);
    this.url = `http://127.0.0.1:${port}`;
    while (!(await fetch(`${this.url}/readyz`)).ok);
  }

  async startUpstream() {
    this.upstream = spawn(join(build, 'tests/api_demo_upstream'), [this.dir], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await lineOf(this.upstream.stdout, /ready/);
  }

  /** Returns an address that signs in once, as alice. */
  async signInUrl() {
    const response = await this.call('alice', 'POST', '/v1/codes');
    return `${this.url}/#code=${(await response.json()).token}`;
  }

  /** Calls the API with the token of a user; an answer that is no success throws. */
  async call(user, method, path, body = {}) {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${tokenOf(user)}`, 'Content-Type': 'application/json' },
      body: method === 'GET' ? undefined : JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  /** The training of j-3 goes on by ten steps. */
  step() {
    this.upstream.stdin.write('\n');
  }

  async killUpstream() {
    const ended = once(this.upstream, 'exit');
    this.upstream.kill('SIGKILL');
    await ended;
  }

  async stop() {
    for (const child of [this.api, this.upstream]) {
      if (child && child.exitCode === null && child.signalCode === null) {
        const ended = once(child, 'exit');
        child.kill('SIGTERM');
        await ended;
      }
    }
    if (this.dir) await rm(this.dir, { recursive: true, force: true });
  }
}
