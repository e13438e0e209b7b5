/**
 * Asks the registry for known vulnerabilities of everything that a lock in the repository names. Ends with 1 if there are
 * some, and with 2 if it was not told: many mirrors answer no audits.
 */
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ROOT } from './write-generated.ts'

/** What `npm audit --json` prints: a report, or why there is none. */
export interface AuditReport {
  readonly metadata?: { readonly vulnerabilities: { readonly total: number } }
  readonly vulnerabilities?: Readonly<Record<string, { readonly severity: string; readonly range: string }>>
  readonly message?: string
}

type ExitCode = 0 | 1 | 2

/** Folders with a lock of their own, from the root of the repository. */
export function listLockedFolders(): readonly string[] {
  const isInstalled = (path: string) => path.split('/').includes('node_modules')
  // What begins with a dot, a pattern does not find by itself.
  const found = globSync(['**/package-lock.json', '**/.*/package-lock.json'], { cwd: ROOT, exclude: isInstalled })
  return [...new Set(found)].map(dirname).toSorted()
}

/** @param printed by `npm audit --json` */
export function readAudit(printed: string): { readonly exitCode: ExitCode; readonly lines: readonly string[] } {
  const report = parseReport(printed)
  const { metadata, vulnerabilities = {}, message = 'no reason given' } = report
  if (!metadata) return { exitCode: 2, lines: [`not audited: the registry gave no answer (${message})`] }
  const { total } = metadata.vulnerabilities
  const found = Object.entries(vulnerabilities).map(([name, { severity, range }]) => `${severity}: ${name} ${range}`)
  return { exitCode: total > 0 ? 1 : 0, lines: [...found, `${total} known vulnerabilities`] }
}

function parseReport(printed: string): AuditReport {
  try {
    return JSON.parse(printed)
  } catch {
    return { message: 'npm printed no JSON' }
  }
}

/** What is known to be vulnerable weighs more than what is not known. */
export function joinExitCodes(codes: readonly ExitCode[]): ExitCode {
  if (codes.length === 0) return 2
  return codes.includes(1) ? 1 : codes.includes(2) ? 2 : 0
}

function printAudit(folder: string): Promise<string> {
  const options = { cwd: join(ROOT, folder), maxBuffer: 64 * 1024 * 1024 }
  return new Promise((resolve) => {
    execFile('npm', ['audit', '--json', '--package-lock-only'], options, (_, stdout) => resolve(stdout))
  })
}

if (import.meta.main) {
  const codes: ExitCode[] = []
  for (const folder of listLockedFolders()) {
    const { exitCode, lines } = readAudit(await printAudit(folder))
    for (const line of lines) console.log(`${folder}: ${line}`)
    codes.push(exitCode)
  }
  process.exitCode = joinExitCodes(codes)
}
