/** Callers who have used up their limit, spelt in other ways, before an API that reads in all lenient ways. */
import { text as readText } from 'node:stream/consumers'
import fc from 'fast-check'
import type { Bundle } from '../../support/build-bundle.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { JWT_SECRET, listValues } from '../../support/judge-readings.ts'
import {
  anySpelling,
  KINDS,
  type Kind,
  listReaders,
  SOURCES,
  type Spelt,
  spellPlainly,
  toRequest,
} from '../../support/lenient-readings.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'
import { RawConnection } from './connection.ts'

export interface IdentityFindings {
  readonly kind: Kind
  readonly spellings: number
  /** Requests that came to the API as somebody else's, or nobody's who may come. */
  readonly admitted: number
  readonly refused: number
  /** Spellings in which a reader found the caller, who had nothing left. */
  readonly dodges: readonly string[]
}

/** Sends spellings of callers who have used up their limit through the gateway, to an API that reads in all lenient ways. */
export async function dodgeIdentities(options: {
  readonly bundle: Bundle
  readonly seed: number
  readonly spellings: number
  readonly kinds?: readonly Kind[]
}): Promise<readonly IdentityFindings[]> {
  const { bundle, seed, spellings, kinds = KINDS } = options
  const all = await Promise.all(KINDS.map(async (kind) => [kind, await listValues(kind)] as const))
  const values = new Map(all)
  const api = await startLenientApi(values)
  const gateway = await startDirectGateway({
    bundle,
    bindings: {
      UPSTREAM_URL: api.url,
      JWT_SECRET,
      POLICIES: KINDS.map((kind) => ({
        ...{ name: kind, match: `/${kind}`, by: SOURCES[kind], limits: '1/1h', anonymous: 'deny' },
      })),
    },
  })
  const connection = new RawConnection(gateway.url)
  const call = (kind: Kind, spelling: string) => connection.call(toBytes(kind, toRequest(kind, spelling)), true)
  const findings: IdentityFindings[] = []
  try {
    for (const kind of kinds) {
      const dodges: string[] = []
      let admitted = 0
      for (const value of values.get(kind) ?? []) {
        const plain = await call(kind, spellPlainly(kind, value))
        if (!plain.headers.has('x-found')) throw new Error(`${kind}: the API does not find the caller`)
        const numRuns = Math.ceil(spellings / (values.get(kind)?.length ?? 1))
        for (const spelling of fc.sample(anySpelling(kind, value), { seed, numRuns })) {
          const { status, headers } = await call(kind, spelling)
          if (status === 200) admitted++
          if (headers.has('x-found')) dodges.push(`${spelling} (${headers.get('x-found')})`)
        }
        const { status } = await call(kind, spellPlainly(kind, value))
        if (status !== 429) throw new Error(`${kind}: the caller has units again`)
      }
      findings.push({ kind, spellings, admitted, refused: spellings - admitted, dodges })
    }
    return findings
  } finally {
    connection.end()
    await Promise.all([gateway.stop(), api.stop()])
  }
}

/** Says in X-Found which reader finds one of the callers. */
function startLenientApi(values: ReadonlyMap<Kind, readonly string[]>): Promise<Upstream> {
  return startUpstream(async (request, response) => {
    const { pathname, search } = new URL(request.url ?? '', 'http://api.example')
    const kind = pathname.slice(1) as Kind
    const body = await readText(request)
    const { authorization = '', cookie = '', 'x-api-key': key = '' } = request.headers
    const texts: Readonly<Record<Kind, string>> = {
      ...{ token: authorization, claim: authorization, cookie, header: String(key) },
      ...{ query: search.slice(1), form: body, json: body },
    }
    const finder = listReaders(kind).find(({ read }) => values.get(kind)?.includes(read(texts[kind])?.trim() ?? ''))
    if (finder) response.setHeader('X-Found', encodeURI(finder.name))
    response.end()
  })
}

/** One character for each byte. */
function toBytes(kind: Kind, { query, headers, body }: Spelt): string {
  const bytes = body === undefined ? undefined : Buffer.from(body).toString('latin1')
  const target = `/${kind}?${query.replace(/[^!-~]|#/g, encodeURIComponent)}`
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = bytes === undefined ? '' : `Content-Length: ${bytes.length}\r\n`
  const method = bytes === undefined ? 'GET' : 'POST'
  return `${method} ${target} HTTP/1.1\r\nHost: gateway.example\r\n${fields.join('')}${length}\r\n${bytes ?? ''}`
}
