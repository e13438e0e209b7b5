import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { type Browser, chromium, type Page } from 'playwright-core'
import { findChromium } from '../../tools/find-chromium.ts'

/** A real Chromium. @throws Error that says what to install if there is none, and none can be installed */
export async function startBrowser(): Promise<Browser> {
  // Tests may run as root, for whom Chromium has no sandbox; the pages are the gateway's own.
  return chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox', '--disable-gpu'] })
}

interface Violation {
  readonly id: string
  readonly impact: string | null
  readonly help: string
  readonly nodes: readonly { readonly html: string }[]
}

/**
 * What axe-core finds wrong in a page that is serious or worse, with where.
 * @param rules those to check; default: all
 */
export async function seriousViolations(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  if (!(await page.evaluate('window.axe !== undefined'))) {
    await page.evaluate(await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'))
  }
  const options = JSON.stringify({ resultTypes: ['violations'], ...(rules && { runOnly: rules }) })
  const violations = (await page.evaluate(`window.axe.run(${options}).then((r) => r.violations)`)) as Violation[]
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`)
}
