/** The page that `sluice simulate --out` writes, in a real Chromium. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { runInside } from '../../command/run-command.ts'
import { seriousViolations, startBrowser } from '../../support/browser.ts'

const HOSTILE = `</script><script>document.title = 'mine'</script><b>\x1b`

test('the page of sluice simulate calls nobody, and is accessible in both colour schemes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-simulate-page-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const row = { time: 1_767_225_600_000, ip: '198.18.0.1', path: '/', token: HOSTILE }
  const input = Array.from({ length: 7 }, () => JSON.stringify(row)).join('\n')
  const args = ['simulate', '-', '--limits', '5/1m', '--limits', '6/1m', '--show-callers', '--fields', 'token=token']
  expect((await runInside([...args, '--out', 'drawn.html'], { cwd: folder, input })).code).toBe(0)
  const url = pathToFileURL(join(folder, 'drawn.html')).href

  const browser = await startBrowser()
  onTestFinished(() => browser.close())
  for (const colorScheme of ['light', 'dark'] as const) {
    // axe-core is a script, which the page's own policy forbids.
    const page = await browser.newPage({ colorScheme, bypassCSP: true })
    const seen: string[] = []
    page.on('request', (request) => seen.push(request.url()))
    page.on('pageerror', ({ message }) => seen.push(message))
    page.on('console', (message) => seen.push(message.text()))
    await page.goto(url)
    expect(seen).toEqual([url])
    expect(await page.title()).toBe('What limits would do')
    expect(await page.locator('ul').textContent()).toContain('7 requests from 2026-01-01T00:00:00.000Z')
    expect(await page.getByRole('img', { name: 'Admitted and refused requests over time, of default' }).count()).toBe(2)
    const captions = await page.locator('caption').allTextContents()
    expect(captions.slice(0, 3)).toEqual(['In numbers', 'Policies', 'Callers refused most'])
    const columns = await page
      .locator('tr')
      .filter({ hasText: /^[56]\/1m/ })
      .allTextContents()
    expect(columns).toEqual([expect.stringMatching(/^5\/1m5228\.6%1m/), expect.stringMatching(/^6\/1m6114\.3%1m/)])
    // A bar for each number of admitted, refused and calls, and one in the timeline of each kind.
    const widths = await page
      .locator('table')
      .first()
      .locator('i')
      .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width / 16))
    expect(widths.map((width) => Number(width.toFixed(2)))).toEqual([4.29, 1.71, 6, 5.14, 0.86, 6])
    const shown = await page.locator('rect').evaluateAll((rects) => rects.map((rect) => rect.textContent))
    expect(shown).toEqual(
      ['5 admitted', '2 refused', '6 admitted', '1 refused'].map((text) => `2026-01-01T00:00:00.000Z: ${text}`),
    )
    expect(await page.locator('td', { hasText: 'document.title' }).first().textContent()).toBe(
      HOSTILE.replace('\x1b', '\ufffd'),
    )
    await page.locator('details').first().click()
    expect(await seriousViolations(page)).toEqual([])
    await page.close()
  }
})
