import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, inject, onTestFinished, test } from 'vitest'
import { linkProject } from '../../support/installed-project.ts'

const EXAMPLES = join(import.meta.dirname, '../../../examples')

/** Where an example finds the Redis that it counts in. */
const env = {
  REDIS_URL: `redis://127.0.0.1:${inject('redisPort')}`,
  UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
  UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
}

// That npm installs the packed file, beside what it needs and what it can use, is shown in `entries.test.ts`.
test.each(readdirSync(EXAMPLES))('examples/%s is tested as its README says, with what it names', async (name) => {
  const from = join(EXAMPLES, name)
  const readme = await readFile(join(from, 'README.md'), 'utf8')
  expect(readme).toMatch(/^npm pack \.\.\/\.\. .*\nnpm install\b.*\nnpm test\b/m)
  const project = await linkProject({ from, packed: inject('packed') })
  onTestFinished(() => project.remove())
  await project.run('npm', ['test'], env)
})
