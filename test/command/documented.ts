import { expect } from 'vitest'
import type { Subcommand } from '../../src/command/subcommand.ts'
import { FIELDS, listFields } from '../../tools/command-fields.ts'

/** Asserts that every field of what was printed with --json is documented. */
export function expectDocumented({ name }: Pick<Subcommand, 'name'>, stdout: string): void {
  const documented = listFields(FIELDS[name] ?? {}).flatMap(([paths]) => paths)
  for (const line of stdout.trim().split('\n'))
    expect(documented).toEqual(expect.arrayContaining(fieldsOf(JSON.parse(line))))
}

function fieldsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((item) => fieldsOf(item, `${path}[]`)))]
  if (typeof value !== 'object' || value === null) return [path]
  return Object.entries(value).flatMap(([name, field]) => fieldsOf(field, path === '' ? name : `${path}.${name}`))
}
