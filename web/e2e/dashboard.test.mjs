// The dashboard in a real browser: sign-in, live rows, a job's panel, loss of the scheduler, and
// axe-core without a finding in both themes.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { Cluster } from './cluster.mjs';

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

async function picture(name) {
  const folder = process.env.TIDE_E2E_PICTURES;
  if (folder) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}

const row = (id) => page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: id, exact: true }) });

before(async () => {
  await cluster.start();
  browser = await chromium.launch({
    executablePath: process.env.TIDE_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', '--no-first-run', '--disable-quic'],
  });
  page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.on('pageerror', (error) => pageErrors.push(String(error)));
  page.on('console', (message) => {
    if (/Content Security Policy/.test(message.text())) pageErrors.push(message.text());
  });
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
  const url = await cluster.signInUrl('c0ffee');
  await page.goto('about:blank');
  await page.goto(url);
  await page.getByText(/^\W*live$/).waitFor();
  assert.equal(new URL(page.url()).hash, '');
  const cookies = await page.context().cookies();
  assert.equal(cookies[0].httpOnly, true);
  assert.equal(cookies[0].sameSite, 'Strict');
  const other = await browser.newContext();
  const second = await other.newPage();
  await second.goto(url);
  await second.getByText('this sign-in code is wrong').waitFor();
  await other.close();
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
