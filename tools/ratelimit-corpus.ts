/**
 * Reads the configurations of a checkout of envoyproxy/ratelimit as `sluice serve --ratelimit-config` does, and compares what
 * is refused with what its own test (`test/config/config_test.go`) expects. Ends with 1 if one is judged otherwise.
 *
 *     npm run test:ratelimit-corpus -- /path/to/ratelimit
 */
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { readDomains } from '../src/ratelimit-service/rate-limits.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('expected the path of a checkout of envoyproxy/ratelimit')

const read = (name: string) => ({ name, text: readFileSync(join(folder, name), 'utf8') })
const tests = read('test/config/config_test.go').text

/** Files that are loaded together, and whether the test expects an error of them. */
const groups = new Map<string, boolean>()
const findLoads = (code: string) => [...code.matchAll(/loadFile\("(.+?)"\)/g)].map(([, name]) => `test/config/${name}`)
for (const [, code = ''] of tests.matchAll(/^\texpectConfigPanic\((.*?)^\t\t"/gms))
  groups.set(findLoads(code).join(), true)
const isJudged = (name: string) => [...groups.keys()].some((group) => group.split(',').at(-1) === name)
for (const pattern of [
  'examples/ratelimit/config/*.yaml',
  'test/config/*.yaml',
  'test/integration/runtime/**/*.yaml',
]) {
  for (const name of globSync(pattern, { cwd: folder }).sort()) if (!isJudged(name)) groups.set(name, false)
}
// Merged domains are loaded one by one, and must not be refused for themselves.
for (const name of findLoads(tests).filter((each) => basename(each).startsWith('merge_'))) groups.set(name, false)

// Placeholders such as <uint> are no configuration.
const inReadme = [...read('README.md').text.matchAll(/^```yaml\n(domain:[^<]*?)^```/gm)].map(([, text = ''], at) => ({
  name: `README.md, example ${at + 1}`,
  text,
}))
const cases = [
  ...[...groups].map(([group, isRefused]) => ({ title: group, files: group.split(',').map(read), isRefused })),
  ...inReadme.map((file) => ({ title: file.name, files: [file], isRefused: false })),
]

let right = 0
for (const { title, files, isRefused } of cases) {
  let problem: string | undefined
  try {
    readDomains(files, 'local')
  } catch (error) {
    problem = (error as Error).message
  }
  const isRight = (problem !== undefined) === isRefused
  if (isRight) right++
  console.log(`${isRight ? 'as expected' : 'OTHERWISE'}: ${title}: ${problem ?? 'loaded'}`)
}
console.log(`${right} of ${cases.length} are judged as its tests expect`)
if (right < cases.length) process.exitCode = 1
