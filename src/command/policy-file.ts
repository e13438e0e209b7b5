/** Reads policies from a file in any of its forms. */
import { resolve } from 'node:path'
import { stringify } from 'smol-toml'
import { validate } from '../gateway/admin/operations/policies.ts'
import type { PolicyTables } from '../gateway/rules/document.ts'
import { CommandError } from './command-error.ts'
import type { Operator } from './operate/operator.ts'
import { readText } from './read-text.ts'
import { type Path, WranglerFile } from './settings/wrangler-file.ts'
import type { Context } from './subcommand.ts'

/** The value of POLICIES, a file of policies, or Wrangler's file. */
const PATHS: readonly Path[] = [[], ['policies'], ['POLICIES'], ['vars', 'POLICIES']]
/** A list in JSON begins with another table or ends, and one in TOML with a name. */
const JSON_START = /^\s*(?:[{/]|\[\s*[{\]])/

/**
 * Reads policies from a file of TOML or JSON, or from standard input, and checks that the Worker would take them.
 * @throws {CommandError} with file, line and column
 */
export async function readPolicyFile(
  file: string,
  { terminal, cwd }: Pick<Context, 'terminal' | 'cwd'>,
  operator: Operator,
): Promise<PolicyTables> {
  const name = file === '-' ? 'standard input' : file
  const text = file === '-' ? await terminal.readInput() : readText(resolve(cwd, file), name)
  const parsed = new WranglerFile(name, text, JSON_START.test(text))
  const path = PATHS.find((each) => Array.isArray(parsed.get(...each)))
  const tables = path && parsed.get(...path)
  if (!path || !Array.isArray(tables)) {
    throw new CommandError(`${name}: expected [[policies]] tables, or a list of them in JSON`)
  }
  const { problems } = await operator.run(validate, { policies: tables })
  const [problem, ...others] = problems
  if (!problem) return tables as PolicyTables
  const keys = problem.pointer?.split('/').slice(2) ?? []
  const at = parsed.locate([...path, ...keys.map((key) => (/^\d+$/.test(key) ? Number(key) : key))])
  throw new CommandError(`${typeof at === 'object' ? `${at.file}:${at.line}:${at.column}: ` : ''}${problem.message}`, {
    ...(others.length > 0 && { hint: `There is more: ${others.map(({ message }) => message).join('; ')}` }),
  })
}

export function formatTables(tables: PolicyTables): string {
  return stringify({ policies: tables }).trimEnd()
}
