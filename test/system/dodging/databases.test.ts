/** A real MariaDB: values that it takes for one account are one identity, as `fold` makes it. */
import { execFile } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { foldValue } from '../../../src/http/request/identity/fold.ts'
import { findProgram } from '../../../tools/programs.ts'
import { type Program, startProgram } from '../../support/program.ts'

const run = promisify(execFile)
const MARIADB = {
  title: 'MariaDB',
  names: ['mariadbd'],
  packages: { 'apt-get': 'mariadb-server' },
  advice: 'Install it: "apt-get install mariadb-server"',
}

let server: Program<never>
let socket: string

beforeAll(async () => {
  const path = await findProgram(MARIADB)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-mariadb-'))
  socket = join(folder, 'socket')
  const user = process.getuid?.() === 0 ? ['--user=root'] : []
  const data = `--datadir=${join(folder, 'data')}`
  await run('mariadb-install-db', ['--no-defaults', ...user, data, '--auth-root-authentication-method=normal'])
  const args = ['--no-defaults', ...user, data, '--skip-networking', `--socket=${socket}`]
  server = startProgram(path, args, { folder, stdio: 'ignore' })
  await vi.waitFor(() => query('SELECT 1'), { timeout: 60_000, interval: 200 })
})

afterAll(() => server?.end())

/** @returns one line for each row */
async function query(sql: string): Promise<readonly string[]> {
  const args = ['--no-defaults', '-N', '-uroot', '-S', socket, '--default-character-set=utf8mb4', 'mysql', '-e', sql]
  const { stdout } = await run('mariadb', args, { maxBuffer: 64 * 1024 * 1024 })
  return stdout.trimEnd().split('\n')
}

/** Characters by what a collation compares of them. */
async function groupCharacters(collation: string): Promise<readonly (readonly string[])[]> {
  const character = 'CONVERT(CHAR(seq USING utf32) USING utf8mb4)'
  const rows = await query(
    `SELECT seq, HEX(WEIGHT_STRING(${character} COLLATE ${collation})) FROM seq_33_to_65535 WHERE seq NOT BETWEEN 55296 AND 57343`,
  )
  const groups = new Map<string, string[]>()
  for (const row of rows) {
    const [code, weight = ''] = row.split('\t')
    const text = String.fromCodePoint(Number(code))
    if (/\p{Assigned}/u.test(text)) groups.set(weight, [...(groups.get(weight) ?? []), text])
  }
  return [...groups.values()]
}

/** Finds ASCII letters and digits that are one with a character that is folded to something else. */
async function findUnfolded(collation: string): Promise<readonly string[]> {
  const fold = (text: string) => foldValue(text, 'lower trim accents')
  return (await groupCharacters(collation)).flatMap((group) => {
    const plain = group.find((text) => /^[A-Z\d]$/.test(text))
    const others = plain === undefined ? [] : group.filter((text) => fold(text) !== fold(plain))
    return others.map((other) => `${plain}${other}`)
  })
}

test('what the default collation takes for one letter is folded to one, but for "ß"', async () => {
  expect(await findUnfolded('utf8mb4_general_ci')).toEqual(['Sß'])
})

test('what collations by Unicode take for one letter is folded to one, but for letters that few can type', async () => {
  const left = await findUnfolded('utf8mb4_unicode_520_ci')
  // Marks that are letters, those of old Irish, and digits of scripts that have no zero.
  expect(left.filter((pair) => /[A-Z](?![\p{M}ᴀ-᷿℀-⅏Ꜣ-ꟿᵹĿŀ])/u.test(pair))).toEqual([])
  console.log(`${left.length} pairs are left: ${left.join(' ')}`)
})

test('what is compared with a number is folded to that number', async () => {
  const piece = fc.constantFrom('1', '0', '2', '.', '-', '+', 'e', 'x', ' ', 'E', "'", '\t')
  const texts = fc.sample(fc.string({ unit: piece, maxLength: 6 }), { seed: inject('fuzz').seed, numRuns: 3_000 })
  const values = texts.map((text) => `('${text.replaceAll("'", "''")}')`).join(',')
  // Only texts that equal a whole number: no column of integers holds another.
  const rows = await query(
    `WITH t (v) AS (VALUES ${values}) SELECT HEX(v), CAST(v + 0 AS SIGNED) FROM t WHERE v = CAST(v + 0 AS SIGNED)`,
  )
  const wrong = rows.flatMap((row) => {
    const [hex = '', number] = row.split('\t')
    const text = Buffer.from(hex, 'hex').toString()
    const folded = foldValue(text, 'numbers')
    return folded === number ? [] : [`${JSON.stringify(text)} is ${number}, not ${folded}`]
  })
  expect(wrong).toEqual([])
  expect(rows.length).toBeGreaterThan(1_000)
})
