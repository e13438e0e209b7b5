/** The page that `sluice simulate --out` writes, in a real Chromium. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { runInside } from '../../command/run-command.ts'
import { seriousViolations, startBrowser } from '../../support/browser.ts'

const HOSTILE = `</script><script>document.title = 'mine'</script><b>\x1b`

test('the page of sluice simulate draws itself, asks nobody, and is accessible in both colour schemes', async () => {
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
    // axe-core is brought in by eval, which the page's own policy forbids.
    const page = await browser.newPage({ colorScheme, bypassCSP: true })
    const seen: string[] = []
    page.on('request', (request) => seen.push(request.url()))
    page.on('pageerror', ({ message }) => seen.push(message))
    page.on('console', (message) => seen.push(message.text()))
    await page.goto(url)
    expect(seen).toEqual([url])
    expect(await page.title()).toBe('What limits would do')
    expect(await page.locator('ul').textContent()).toContain('7 requests from 2026-01-01T00:00:00.000Z')
    // One for the comparison, one for its calls, and two for each of the variants.
    expect(await page.locator('svg[role=img]').count()).toBe(6)
    expect(
      await page.getByRole('img', { name: 'Bars of admitted and refused requests for each variant' }).count(),
    ).toBe(1)
    const captions = await page.locator('caption').allTextContents()
    expect(captions.slice(0, 4)).toEqual(['The variants in numbers', 'In numbers', 'Policies', 'Callers refused most'])
    const bars = await page
      .locator('svg')
      .first()
      .locator('rect')
      .evaluateAll((rects) => rects.map((rect) => `${rect.getAttribute('class')}: ${rect.textContent}`))
    expect(bars).toEqual(['admitted: 5 admitted', 'refused: 2 refused', 'admitted: 6 admitted', 'refused: 1 refused'])
    expect(await page.locator('td', { hasText: 'document.title' }).first().textContent()).toBe(
      HOSTILE.replace('\x1b', '\ufffd'),
    )
    await page.locator('details').first().click()
    expect(await seriousViolations(page)).toEqual([])
    await page.close()
  }
})
