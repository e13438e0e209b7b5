/** What a release is made of: its workflow, what it refuses, and the chart. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { listLockedFolders } from '../../tools/audit.ts'
import { rewriteLinks } from '../../tools/pack.ts'
import { findProblems, type ReleaseManifest, readNotes, releaseInOrder } from '../../tools/release.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

const MANIFEST: ReleaseManifest = {
  version: '1.2.3',
  repository: { url: 'git+https://github.com/acme/sluice.git' },
  homepage: 'https://github.com/acme/sluice#readme',
  bugs: 'https://github.com/acme/sluice/issues',
}
const CHANGELOG = '# Changelog\n\n## 1.2.3, 2026-12-01\n\nNew:\n\n- this\n\n## 1.2.2, 2026-11-30\n\n- that\n'

describe('findProblems()', () => {
  test('finds none in a release', () => {
    expect(findProblems(MANIFEST, CHANGELOG, { appVersion: '1.2.3' })).toEqual([])
  })

  test('refuses placeholders, a version without a date, and a chart of another version', () => {
    const ours: ReleaseManifest = JSON.parse(JSON.stringify(MANIFEST).replaceAll('/acme/', '/OWNER/'))
    expect(findProblems(ours, CHANGELOG.replace('2026-12-01', 'unreleased'), { appVersion: '1.2.2' })).toEqual([
      'package.json: repository.url still has the placeholder: git+https://github.com/OWNER/sluice.git',
      'package.json: homepage still has the placeholder: https://github.com/OWNER/sluice#readme',
      'package.json: bugs still has the placeholder: https://github.com/OWNER/sluice/issues',
      'CHANGELOG.md: expected "## 1.2.3, <date>", such as 2026-11-28',
      'ops/chart/Chart.yaml: expected appVersion: 1.2.3',
    ])
  })
})

describe('releaseInOrder()', () => {
  const packages = ['command', 'library'].map((name) => ({ name, file: `${name}.tgz`, integrity: `of ${name}` }))
  const publish = (published: Record<string, string>, failing?: string) => {
    const problems = releaseInOrder(packages, {
      findIntegrity: (name) => published[name],
      publish(file) {
        if (file === failing) return false
        published[file.replace('.tgz', '')] = `of ${file.replace('.tgz', '')}`
        return true
      },
    })
    return [problems, Object.keys(published)]
  }

  test('goes on where an earlier run has failed', () => {
    const published = {}
    expect(publish(published, 'library.tgz')).toEqual([['npm: library was not published'], ['command']])
    expect(publish(published)).toEqual([[], ['command', 'library']])
    expect(publish(published)).toEqual([[], ['command', 'library']])
  })

  test('publishes nothing after a package that failed, or that is there with something else', () => {
    expect(publish({}, 'command.tgz')).toEqual([['npm: command was not published'], []])
    const problem = 'npm: command is there already, and holds something else'
    expect(publish({ command: 'other' })).toEqual([[problem], ['command']])
  })
})

test('readNotes() takes the section of one version', () => {
  expect(readNotes(CHANGELOG, '1.2.3')).toEqual({ date: '2026-12-01', text: 'New:\n\n- this' })
  expect(readNotes(CHANGELOG, '1.2')).toEqual({ text: '' })
})

test('rewriteLinks() leaves links that are', () => {
  const text = '![x](docs/x.png) [a](docs/a.md#b) [c](https://c.test) [d](#d) `[e](f)`'
  expect(rewriteLinks(text, MANIFEST)).toBe(
    '![x](https://github.com/acme/sluice/raw/v1.2.3/docs/x.png) ' +
      '[a](https://github.com/acme/sluice/blob/v1.2.3/docs/a.md#b) [c](https://c.test) [d](#d) ' +
      '`[e](https://github.com/acme/sluice/blob/v1.2.3/f)`',
  )
})

test('the placeholder stands in package.json alone', () => {
  const places = ['README.md', 'Dockerfile', ...globSync(['.github/**/*.yml', 'ops/**/*.yaml'], { cwd: ROOT })]
  expect(places.filter((path) => /\bOWNER\b/.test(read(path)))).toEqual([])
})

test('actions and images are pinned by what they hold', () => {
  const workflows = globSync('.github/workflows/*.yml', { cwd: ROOT })
  const used = workflows.flatMap((path) => [...read(path).matchAll(/^ +(?:- )?uses: (.*)$/gm)].map(([, text]) => text))
  expect(used.length).toBeGreaterThan(10)
  expect(used.filter((text) => !/^[\w-]+(?:\/[\w-]+)+@[\da-f]{40} # v\d+\.\d+\.\d+$/.test(text ?? ''))).toEqual([])
  const bases = [...read('Dockerfile').matchAll(/^FROM (?:--\S+ )?(\S+)/gm)].map(([, base]) => base)
  expect(new Set(bases).size).toBe(1)
  expect(bases[0]).toMatch(/@sha256:[\da-f]{64}$/)
})

test('Dependabot knows every lock', () => {
  const { updates } = parse(read('.github/dependabot.yml'))
  const [npm] = updates as { directories: string[] }[]
  expect(npm?.directories).toEqual(listLockedFolders().map((folder) => (folder === '.' ? '/' : `/${folder}`)))
})

test('the image has the versions of gRPC that the tests have', () => {
  const { devDependencies } = JSON.parse(read('package.json'))
  const { dependencies } = JSON.parse(read('ops/image/package.json'))
  for (const [name, version] of Object.entries(dependencies)) expect(devDependencies[name]).toBe(version)
})

describe('the chart', () => {
  const schema = JSON.parse(read('ops/chart/values.schema.json'))
  const values = parse(read('ops/chart/values.yaml'))
  const validate = new Ajv().compile(schema)

  test('has the version of what it runs', () => {
    const { version, appVersion } = parse(read('ops/chart/Chart.yaml'))
    const { version: own } = JSON.parse(read('package.json'))
    expect([version, appVersion]).toEqual([own, own])
  })

  test('accepts its own values, and refuses a name that it does not know', () => {
    expect(validate(values)).toBe(true)
    expect(validate({ ...values, replica: 2 })).toBe(false)
    expect(validate({ ...values, variables: { RATE_LIMITS: 60 } })).toBe(false)
  })

  test('has a value, and a place in the schema, for each that its templates name', () => {
    const templates = globSync('ops/chart/templates/*', { cwd: ROOT }).map(read).join('')
    const named = [...templates.matchAll(/\.Values\.([\w.]+)/g)].map(([, path = '']) => path.split('.'))
    expect(named.length).toBeGreaterThan(15)
    const find = (root: unknown, path: readonly string[]) =>
      path.reduce<unknown>((node, key) => (node as Readonly<Record<string, unknown>> | undefined)?.[key], root)
    for (const path of named) {
      expect(find(values, path), path.join('.')).toBeDefined()
      const inSchema = path.flatMap((key) => ['properties', key])
      expect(find(schema, inSchema), path.join('.')).toBeDefined()
    }
  })
})
