import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { COMMANDS } from '../planted/commands.ts'
import { FAULTS } from '../planted/faults.ts'
import { FAULTS as HOST_FAULTS } from '../system/frameworks/faults.ts'

// With `npm test`, it would itself find each fault that is planted.
test.each([...new Set([...FAULTS, ...HOST_FAULTS, ...COMMANDS.map(({ fault }) => fault)])])(
  '$name can still be planted, at one place',
  { tags: ['slow'] },
  ({ file, find }) => {
    const text = readFileSync(join(import.meta.dirname, '../..', file), 'utf8')
    expect(text.split(find)).toHaveLength(2)
  },
)
