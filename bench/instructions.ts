/**
 * Instructions of the processor that Redis spends on a decision, which no other load on the machine changes: valgrind
 * counts them.
 *
 *     npm run bench:instructions
 *
 * Needs valgrind (Debian: apt-get install valgrind). About three minutes. What a PING takes is subtracted for each call,
 * so that reading it from the socket and answering is not counted.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { defaultPath, findExecutable } from '../tools/executables.ts'
import { findRedisServer } from '../tools/find-redis-server.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { connectRedis } from './command-counts.ts'
import { connectPeers, installPeers } from './peers.ts'
import { tiersOf } from './redis/measure.ts'
import { makeSubjects, SUMMED_STREAM, type Subject } from './redis/subjects.ts'
import { print } from './report/tables.ts'
import { startFront } from './services.ts'

const TOKEN = 'bench-token'
const DECISIONS = 200
/** Not counted: a script is compiled by its first call. */
const WARM_UPS = 10
/** Admissions in the window of a caller that is not new. */
const ENTRIES = 1_000

const run = promisify(execFile)

const valgrind = await findExecutable('valgrind', defaultPath())
if (!valgrind) {
  console.error('valgrind is not installed: apt-get install valgrind')
  process.exit(1)
}
installPeers()
const folder = await mkdtemp(join(tmpdir(), 'sluice-instructions-'))
const server = await startRedisServer({ binary: await underValgrind(valgrind) })
const redis = await connectRedis(server.port)
const front = await startFront(server.port, TOKEN, 0)
const peers = await connectPeers({ redisPort: server.port, restUrl: front.url, token: TOKEN })
try {
  const pingInstructions = await count(() => redis.ping())
  const rows: Record<string, string | number>[] = []
  for (const tiers of [1, 3]) {
    for (const subject of await makeSubjects(redis, tiersOf(tiers), peers.contenders)) {
      if (subject.name === SUMMED_STREAM) continue
      const [newCaller, hotCaller] = [await countDecision(subject, true), await countDecision(subject, false)]
      rows.push({
        limiter: subject.name,
        tiers,
        'new caller': Math.round(newCaller - pingInstructions),
        'hot caller': Math.round(hotCaller - pingInstructions),
      })
    }
  }
  print('Instructions of Redis for a decision', rows)
} finally {
  await peers.close()
  await redis.close()
  await front.stop()
  await server.stop()
  await rm(folder, { recursive: true })
}

/** A program that runs Redis under valgrind, whose figures go to the folder. */
async function underValgrind(path: string): Promise<string> {
  const [program, redisServer] = [join(folder, 'counted'), join(folder, 'redis-server')]
  await symlink(await findRedisServer(), redisServer)
  const command = `'${path}' --tool=callgrind '--callgrind-out-file=${folder}/counts' '${redisServer}' --hz 1`
  await writeFile(program, `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 })
  return program
}

async function countDecision(subject: Subject, isNew: boolean): Promise<number> {
  const callers = Array.from({ length: WARM_UPS + DECISIONS }, (_, index) => `${isNew ? 'new' : 'hot'}-${index}`)
  if (!isNew) {
    callers.fill('hot')
    await subject.fill('hot', ENTRIES)
  }
  for (const caller of callers.splice(0, WARM_UPS)) await subject.decide(caller)
  const instructions = await count(() => subject.decide(callers.pop() as string))
  await redis.flushAll()
  return instructions
}

/** What one of many such calls takes. */
async function count(call: () => Promise<unknown>): Promise<number> {
  await control('--zero')
  for (let i = 0; i < DECISIONS; i++) await call()
  await control('--dump')
  const dumps = (await readdir(folder)).filter((name) => name.startsWith('counts.'))
  const newest = Math.max(...dumps.map((name) => Number(name.split('.')[1])))
  const [, total] = /^(?:totals|summary): (\d+)/m.exec(await readFile(join(folder, `counts.${newest}`), 'utf8')) ?? []
  if (total === undefined) throw new Error('valgrind counted nothing')
  return Number(total) / DECISIONS
}

/** Redis does what it is told when it is asked for something next. */
async function control(what: string): Promise<void> {
  await run('callgrind_control', [what, `${server.pid}`])
  await redis.ping()
}
