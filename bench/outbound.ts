/**
 * What clients make of the limits of servers, in virtual time: the calls done of those possible, the refusals, and the
 * longest needless wait, for models of servers that answer after 50 ms, 2 s and 10 s.
 *
 *     npm run bench:outbound -- [--only <server>] [--seed 1] [--peers]
 *
 * Peers need `npm ci --prefix bench`. Prints a table in Markdown for each client.
 */
import { parseArgs } from 'node:util'
import { createOwnClient } from '../test/support/outbound/own-client.ts'
import { CIRCUMSTANCES, PROVIDERS, type Provider } from '../test/support/outbound/providers.ts'
import { type CreateClient, type Figures, runLoad } from '../test/support/outbound/run-load.ts'
import { VirtualClock } from '../test/support/virtual-clock.ts'

const ANSWERS_MS = [50, 2_000, 10_000]

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seed: { type: 'string', default: '1' },
    peers: { type: 'boolean', default: false },
  },
})

await printTable('Sluice', [...PROVIDERS, ...CIRCUMSTANCES], (provider, answerMs) => {
  return runLoad(provider, createOwnClient, answerMs, Number(values.seed))
})
if (values.peers) {
  const { PEERS, replaceTime }: PeerModule = await import(new URL('peers/outbound-clients.ts', import.meta.url).href)
  for (const [name, createClient] of Object.entries(PEERS)) {
    await printTable(name, PROVIDERS, async (provider, answerMs) => {
      const clock = new VirtualClock()
      const restore = replaceTime(clock)
      try {
        return await runLoad(provider, createClient, answerMs, Number(values.seed), clock)
      } finally {
        restore()
      }
    })
  }
}

interface PeerModule {
  readonly PEERS: Readonly<Record<string, CreateClient>>
  replaceTime(clock: VirtualClock): () => void
}

type Run = (provider: Provider, answerMs: number) => Promise<Figures>

async function printTable(client: string, providers: readonly Provider[], run: Run): Promise<void> {
  console.log(`\n${client}: done, refused by the server, ended in a refusal, longest needless wait\n`)
  console.log(`| server | limits known by | ${ANSWERS_MS.map((ms) => `answers of ${ms} ms`).join(' | ')} |`)
  console.log(`| --- | --- | ${ANSWERS_MS.map(() => '---').join(' | ')} |`)
  for (const provider of providers.filter(({ name }) => name.includes(values.only))) {
    const cells: string[] = []
    for (const answerMs of ANSWERS_MS) cells.push(formatFigures(await run(provider, answerMs)))
    console.log(`| ${provider.name} | ${provider.evidence} | ${cells.join(' | ')} |`)
  }
}

function formatFigures({ done, refused, failed, needlessMs }: Figures): string {
  return `${done.toFixed(2)}, ${(refused * 100).toFixed(1)} %, ${failed}, ${(needlessMs / 1_000).toFixed(1)} s`
}
