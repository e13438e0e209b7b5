import type { IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import { startUpstream, type Upstream } from './upstream.ts'

export interface Recorded {
  /** `METHOD target`. */
  readonly line: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface RecordingUpstream extends Upstream {
  /** Requests since the last call of `take`, in the order they came. */
  take(): readonly Recorded[]
}

/** An API on 127.0.0.1 that answers everything with 200 and remembers it. */
export async function startRecordingUpstream(): Promise<RecordingUpstream> {
  const recorded: Recorded[] = []
  const upstream = await startUpstream(async (request, response) => {
    const { method, url, headers } = request
    const body = await text(request).catch(() => '(broken off)')
    recorded.push({ line: `${method} ${url}`, headers, body })
    response.end('served')
  })
  return { ...upstream, take: () => recorded.splice(0) }
}
