// Starts tide-api in front of a scheduler and an agent that play a small cluster.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const here = import.meta.dirname ?? new URL('.', import.meta.url).pathname;
const build = resolve(process.env.TIDE_BUILD ?? join(here, '../../build/dev'));

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
    const hash = createHash('sha256').update('unused').digest('hex');
    await writeFile(join(this.dir, 'tokens'), `${hash} alice user\n`, { mode: 0o600 });
    this.api = spawn(join(build, 'bin/tide-api'), [
      '--scheduler', `unix:${this.dir}/scheduler.sock`,
      '--listen', '127.0.0.1:0',
      '--web-dir', join(here, '../dist'),
      '--token-file', join(this.dir, 'tokens'),
      '--login-code-file', join(this.dir, 'code'),
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

  /** An address that signs in once. */
  async signInUrl(code) {
    const expires = Math.floor(Date.now() / 1000) + 60;
    await writeFile(join(this.dir, 'code'), `${code} ${expires} alice\n`, { mode: 0o600 });
    return `${this.url}/#code=${code}`;
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
