/**
 * Fails if a dependency has a known vulnerability. A registry that answers no audits (many mirrors do not) is reported,
 * but is no failure: the one that matters answers them.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'

/** What `npm audit --json` prints: a report, or why there is none. */
export interface AuditReport {
  readonly metadata?: { readonly vulnerabilities: { readonly total: number } }
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string; readonly range: string }>>
  readonly message?: string
}

/** @param printed by `npm audit --json` */
export function readAudit(printed: string): { readonly exitCode: 0 | 1; readonly lines: readonly string[] } {
  const report = JSON.parse(printed) as AuditReport
  const { metadata, vulnerabilities = {}, message = 'no reason given' } = report
  if (!metadata) return { exitCode: 0, lines: [`not audited: the registry answers no audits (${message})`] }
  const { total } = metadata.vulnerabilities
  const found = Object.entries(vulnerabilities).map(([name, { severity, range }]) => `${severity}: ${name} ${range}`)
  return { exitCode: total > 0 ? 1 : 0, lines: [...found, `${total} known vulnerabilities`] }
}

if (import.meta.main) {
  const cwd = join(import.meta.dirname, '..')
  execFile('npm', ['audit', '--json'], { cwd, maxBuffer: 64 * 1024 * 1024 }, (_, stdout) => {
    const { exitCode, lines } = readAudit(stdout)
    console.log(lines.join('\n'))
    process.exitCode = exitCode
  })
}
