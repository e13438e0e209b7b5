/** What --json prints, held against the schema of an operation or against docs/api/command-json.md. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as v from 'valibot'
import { expect } from 'vitest'
import type { Operation } from '../../src/gateway/admin/operation.ts'

const JSON_PAGE = readFileSync(join(import.meta.dirname, '../../docs/api/command-json.md'), 'utf8')

/** Asserts that the answer of an operation was printed, and the host. */
export function expectAnswer({ answer }: Pick<Operation, 'answer'>, stdout: string): void {
  const { redis, gateway, ...printed } = JSON.parse(stdout)
  expect([redis, gateway]).toContainEqual(expect.any(String))
  expect(v.safeParse(answer, printed).issues).toBeUndefined()
}

/** Asserts that the page names every field of what a subcommand printed. */
export function expectDocumented(name: string, stdout: string): void {
  const [, section = ''] = JSON_PAGE.split(`## sluice ${name}\n`)
  const named = [...(section.split('\n## ')[0] ?? '').matchAll(/`(\w+)(?:\[\])?`/g)].map(([, field]) => field)
  expect(named).toEqual(expect.arrayContaining(readFields(JSON.parse(stdout))))
}

function readFields(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value)) return value.flatMap(readFields)
  return Object.entries(value).flatMap(([name, field]) => [name, ...readFields(field)])
}
