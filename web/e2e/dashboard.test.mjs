// The dashboard in a real browser: sign-in, live rows, a job's panel, loss of the scheduler, and
// axe-core without a finding in both themes.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { Cluster, tokenOf } from './cluster.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const cluster = new Cluster();
let browser;
let page;
const pageErrors = [];

async function findings(target) {
  await target.evaluate(axe);
  const result = await target.evaluate(() => globalThis.axe.run());
  return result.violations.map(
    (rule) => `${rule.id}: ${rule.nodes.map((node) => node.target.join(' ')).join(', ')}`,
  );
}

async function picture(name, target = page) {
  const folder = process.env.TIDE_E2E_PICTURES;
  if (folder) await target.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}

const row = (id, target = page) =>
  target.getByRole('row').filter({ has: target.getByRole('rowheader', { name: id, exact: true }) });

function watch(target) {
  target.on('pageerror', (error) => pageErrors.push(String(error)));
  target.on('console', (message) => {
    if (/Content Security Policy/.test(message.text())) pageErrors.push(message.text());
  });
}

/** Opens a browser of its own, with the sign-in form. */
async function otherBrowser() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const other = await context.newPage();
  watch(other);
  await other.goto(cluster.url);
  return other;
}

async function pasteToken(target, token) {
  await target.getByLabel('Token').fill(token);
  await target.getByLabel('Token').press('Enter');
}

const live = (target) => target.getByText(/^\W*live$/).waitFor();
const form = (target) => target.getByRole('heading', { name: 'Sign in' }).waitFor({ timeout: 15_000 });

before(async () => {
  await cluster.start();
  browser = await chromium.launch({
    executablePath: process.env.TIDE_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', '--no-first-run', '--disable-quic'],
  });
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  watch(page);
});

after(async () => {
  await browser?.close();
  await cluster.stop();
});

test('without a session the page says how to sign in', async () => {
  await page.goto(cluster.url);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  assert.deepEqual(await findings(page), []);
});

test('the code in the fragment signs in once and leaves the address', async () => {
  const url = await cluster.signInUrl();
  await page.goto('about:blank');
  await page.goto(url);
  await live(page);
  assert.equal(new URL(page.url()).hash, '');
  const cookies = await page.context().cookies();
  assert.equal(cookies[0].httpOnly, true);
  assert.equal(cookies[0].sameSite, 'Strict');
  const second = await otherBrowser();
  await second.goto(url); // only the fragment is another: the page stays and takes the code
  await second.getByRole('alert').filter({ hasText: 'this sign-in code is wrong' }).waitFor();
  await second.context().close();
});

test('a wrong token is refused next to the form, a right one signs in', async () => {
  const other = await otherBrowser();
  await form(other);
  await picture('sign-in-light', other);
  await pasteToken(other, 'tide_4_no');
  await other.getByRole('alert').filter({ hasText: 'no token of Tide' }).waitFor();
  assert.deepEqual(await findings(other), []);
  await other.emulateMedia({ colorScheme: 'dark' });
  assert.deepEqual(await findings(other), []);
  await picture('sign-in-dark', other);
  await pasteToken(other, tokenOf('bob'));
  await live(other);
  await other.getByTitle('role: user').filter({ hasText: 'bob' }).waitFor();
  await other.context().close();
});

test('signing out ends the session', async () => {
  const other = await otherBrowser();
  await pasteToken(other, tokenOf('bob'));
  await live(other);
  const [cookie] = await other.context().cookies();
  await other.getByRole('button', { name: 'Sign out' }).click();
  await form(other);
  assert.equal(await other.getByRole('alert').filter({ hasText: /./ }).count(), 0);
  await other.reload();
  await form(other);
  const answer = await fetch(`${cluster.url}/v1/session`, { headers: { Cookie: `${cookie.name}=${cookie.value}` } });
  assert.equal(answer.status, 401);
  await other.context().close();
});

test('a session can be ended from the list', async () => {
  const other = await otherBrowser();
  const ended = await otherBrowser();
  for (const target of [ended, other]) {
    await pasteToken(target, tokenOf('ann'));
    await live(target);
  }
  const { token } = await ended.evaluate(() => fetch('/v1/session').then((answer) => answer.json()));
  await other.getByRole('button', { name: 'Sessions' }).press('Enter');
  const list = other.getByRole('dialog', { name: 'Sessions and tokens' });
  await list.getByText('this one').waitFor();
  assert.deepEqual(await findings(other), []);
  await picture('sessions-light', other);
  await other.emulateMedia({ colorScheme: 'dark' });
  assert.deepEqual(await findings(other), []);
  await picture('sessions-dark', other);
  const button = list.getByRole('button', { name: `End browser session ${token}`, exact: true });
  await button.click();
  await button.waitFor({ state: 'detached' });
  await ended.getByRole('alert').filter({ hasText: 'Your session has ended' }).waitFor({ timeout: 15_000 });
  await other.keyboard.press('Escape');
  await list.waitFor({ state: 'detached' });
  await other.getByRole('button', { name: 'Sessions' }).click();
  await list.getByRole('row').filter({ hasText: 'this one' }).getByRole('button', { name: /^End/ }).click();
  await form(other);
  await other.context().close();
  await ended.context().close();
});

test("another's job shows as an outline, without its log", async () => {
  const other = await otherBrowser();
  const refused = [];
  other.on('response', (answer) => answer.status() === 403 && refused.push(answer.url()));
  await pasteToken(other, tokenOf('bob'));
  await row('j-3', other).getByRole('cell', { name: 'alice' }).waitFor();
  await row('j-3', other).getByRole('link', { name: 'llm-7b-pretrain' }).click();
  await other.getByText('Only its owner, members of a visible project and operators see more').waitFor();
  assert.equal(await other.getByRole('region', { name: 'Log' }).count(), 0);
  assert.equal(await other.getByRole('button', { name: 'suspend' }).count(), 0);
  assert.deepEqual(await findings(other), []);
  await picture('outline-light', other);
  assert.deepEqual(refused, []);
  await other.context().close();
});

test("an operator sees the whole of another's job", async () => {
  const other = await otherBrowser();
  await pasteToken(other, tokenOf('olga'));
  await row('j-3', other).getByRole('link', { name: 'llm-7b-pretrain' }).click();
  await other.getByRole('region', { name: 'Log' }).filter({ hasText: 'step 2610' }).waitFor();
  await other.getByRole('button', { name: 'suspend' }).waitFor();
  assert.equal(await other.getByText('Only its owner').count(), 0);
  await other.context().close();
});

test('jobs, nodes and faults are shown with sign and word', async () => {
  await row('j-3').getByText('running').waitFor();
  await row('j-1').getByText('failed').waitFor();
  await row('j-4').getByText('wants 12 nodes').waitFor();
  await row('j-4').getByText(/starts ~\d\d:\d\d|starts ~\d+ /).waitFor();
  const quarantined = page.getByRole('listitem').filter({ hasText: 'b-l01-n02' });
  await quarantined.getByText('quarantined').waitFor();
  await page.getByRole('cell', { name: /no longer answers/ }).waitFor();
  await picture('overview-light');
});

test('a step of training changes the row in place', async () => {
  const before = await page.getByRole('rowheader').allTextContents();
  cluster.step();
  await row('j-3').getByText('2,620 / 5,000').waitFor();
  assert.deepEqual(await page.getByRole('rowheader').allTextContents(), before);
});

test('a job opens with attempts, handover and its log', async () => {
  await row('j-3').getByRole('link', { name: 'llm-7b-pretrain' }).press('Enter');
  assert.equal(new URL(page.url()).search, '?job=j-3');
  await page.getByRole('heading', { name: 'j-3 llm-7b-pretrain' }).waitFor();
  const handover = page.getByRole('list', { name: 'How attempt 1 gave its nodes back' });
  assert.match(await handover.textContent(), /notice.*parked.*saved.*released/);
  const log = page.getByRole('region', { name: 'Log' });
  await log.filter({ hasText: 'step 2620' }).waitFor();
  cluster.step();
  await log.filter({ hasText: 'step 2630' }).waitFor();
  await picture('job-light');
  assert.deepEqual(await findings(page), []);
});

test('suspend and resume reach the scheduler', async () => {
  await page.goto(`${cluster.url}/?job=j-4`);
  await page.getByText('What would help: ask for 3 nodes').waitFor();
  await page.getByRole('button', { name: 'suspend' }).click();
  await row('j-4').getByText('held').waitFor();
  await page.getByRole('button', { name: 'resume' }).click();
  await row('j-4').getByText('queued').waitFor();
});

test('axe finds nothing in the dark theme', async () => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto(`${cluster.url}/?job=j-3`);
  await page.getByRole('heading', { name: 'j-3 llm-7b-pretrain' }).waitFor();
  assert.deepEqual(await findings(page), []);
  await picture('job-dark');
  await page.getByRole('button', { name: 'Close j-3' }).click();
  assert.deepEqual(await findings(page), []);
  await picture('overview-dark');
  await page.emulateMedia({ colorScheme: 'light' });
});

test('a phone shows it without sideways scrolling of the page', async () => {
  await page.setViewportSize({ width: 390, height: 800 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  await picture('overview-phone');
  assert.equal(wide, false);
  await page.setViewportSize({ width: 1280, height: 900 });
});

test('when the scheduler dies the page says how old its data is, and recovers', async () => {
  // A real scheduler keeps sessions over a restart. The played one forgets them, but knows alice's token.
  await page.context().addCookies([{ name: 'tide_session', value: tokenOf('alice'), url: cluster.url }]);
  await page.reload();
  await live(page);
  await cluster.killUpstream();
  await page.getByText(/^\W*data \d+ s old$/).waitFor({ timeout: 15_000 });
  await page.getByText('Running jobs continue').waitFor();
  await row('j-3').getByText('running').waitFor();
  await picture('stale-light');
  assert.deepEqual(await findings(page), []);
  await cluster.startUpstream();
  await page.getByText(/^\W*live$/).waitFor({ timeout: 15_000 });
});

test('nothing failed on the way', () => assert.deepEqual(pageErrors, []));
