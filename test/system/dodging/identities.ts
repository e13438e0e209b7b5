/** Callers who have used up their limit, spelt in other ways, before an API that reads in all lenient ways. */
import { text as readText } from 'node:stream/consumers'
import type { Bundle } from '../../support/build-bundle.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { type Drawing, drawSpellings, JWT_SECRET } from '../../support/judge-readings.ts'
import { HOLDERS, KINDS, type Kind, type Spelt } from '../../support/lenient-readings.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'
import { RawConnection } from './connection.ts'

interface IdentityFindings {
  readonly kind: Kind
  readonly spellings: number
  /** Requests that came to the API as somebody else's, or nobody's who may come. */
  readonly admitted: number
  readonly refused: number
  /** Spellings in which a reader found the caller, who had nothing left. */
  readonly dodges: readonly string[]
}

/** Sends spellings of callers who have used up their limit through the gateway, to an API that reads in all lenient ways. */
export async function dodgeIdentities(
  bundle: Bundle,
  drawing: Drawing,
  kinds: readonly Kind[] = KINDS,
): Promise<readonly IdentityFindings[]> {
  const { spellings } = drawing
  const drawn = new Map(
    await Promise.all(kinds.map(async (kind) => [kind, await drawSpellings(kind, drawing)] as const)),
  )
  const api = await startLenientApi((kind, value) => drawn.get(kind)?.has(value) ?? false)
  const gateway = await startDirectGateway({
    bundle,
    bindings: {
      UPSTREAM_URL: api.url,
      JWT_SECRET,
      POLICIES: KINDS.map((kind) => ({
        ...{ name: kind, match: `/${kind}`, by: HOLDERS[kind].by, limits: '1/1h', anonymous: 'deny' },
      })),
    },
  })
  const connection = new RawConnection(gateway.url)
  const findings: IdentityFindings[] = []
  try {
    for (const [kind, byValue] of drawn) {
      const { spellPlainly, toRequest } = HOLDERS[kind]
      const call = (spelling: string) => connection.call(toBytes(kind, toRequest(spelling)), true)
      const dodges: string[] = []
      let admitted = 0
      for (const [value, spelt] of byValue) {
        const plain = await call(spellPlainly(value))
        if (!plain.headers.has('x-found')) throw new Error(`${kind}: the API does not find the caller`)
        for (const spelling of spelt) {
          const { status, headers } = await call(spelling)
          if (status === 200) admitted++
          if (headers.has('x-found')) dodges.push(`${spelling} (${headers.get('x-found')})`)
        }
        const { status } = await call(spellPlainly(value))
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
function startLenientApi(isCaller: (kind: Kind, value: string) => boolean): Promise<Upstream> {
  return startUpstream(async (request, response) => {
    const { pathname, search } = new URL(request.url ?? '', 'http://api.example')
    const kind = pathname.slice(1) as Kind
    const { readers, findText } = HOLDERS[kind]
    const headers = new Headers(request.headers as Record<string, string>)
    const text = findText({ headers, query: search.slice(1), body: await readText(request) })
    const [finder] = readers.find(([, read]) => isCaller(kind, read(text)?.trim() ?? '')) ?? []
    if (finder !== undefined) response.setHeader('X-Found', encodeURI(finder))
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
