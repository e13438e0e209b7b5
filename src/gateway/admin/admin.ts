/** The admin API and the dashboard, below `/_sluice/`. Loaded only if there is an ADMIN_TOKEN. */

import { createDigest } from '../../core/runtime/digest.ts'
import { sleep } from '../../core/runtime/sleep.ts'
import type { AdminConfig, Config } from '../../http/config/load-config.ts'
import { createProblemResponse } from '../../http/response/problem.ts'
import { createAdminAuth } from '../api/auth.ts'
import { OperationError } from '../api/operation.ts'
import { readInput, readJson } from '../api/read-input.ts'
import type { RouteHandler } from '../api/route.ts'
import { HEADERS } from '../api/route.ts'
import type { GatewayContext } from '../app/app.ts'
import { serve } from './dashboard/serve.ts'
import { type AdminContext, type Operation, toProblem } from './operation.ts'
import { OPERATIONS } from './operations.ts'

const ROOT = '/_sluice'
const API = `${ROOT}/admin`

/** No stream stays open for ever; browsers ask for another one by themselves. */
const MAX_EVENTS = 150

export interface AdminOptions extends Pick<AdminContext, 'env' | 'counters'> {
  readonly admin: AdminConfig
  readonly config: Config
}

export function createAdmin({ admin, config, env, counters }: AdminOptions, gateway: GatewayContext): RouteHandler {
  const { store, engine, health: upstream, rulesEngine, readHealth, now, log } = gateway
  const { ipv6Prefix, identitySecret } = config
  const auth = createAdminAuth({ token: admin.token, ipv6Prefix, digest: createDigest(identitySecret), now, log })
  const context: AdminContext = { config, env, store, engine, upstream, rulesEngine, readHealth, counters, now }
  let document: string | undefined

  return async function operate(request, target) {
    if (admin.host !== undefined && target.host !== admin.host) return undefined
    const { canonical } = target.path
    try {
      if (canonical !== API && !canonical.startsWith(`${API}/`)) {
        return await serve(canonical.slice(ROOT.length + 1), request, auth)
      }
      const refused = auth.check(request)
      if (refused) return createProblemResponse(refused)
      const path = canonical.slice(API.length)
      if (path === '/openapi.json' && request.method === 'GET') {
        const { describeApi } = await import('../api/open-api.ts')
        document ??= `${JSON.stringify(describeApi(OPERATIONS), undefined, 2)}\n`
        return new Response(document, { headers: { 'Content-Type': 'application/json', ...HEADERS } })
      }
      return await answer(findOperation(path, request.method), request, context)
    } catch (error) {
      return createProblemResponse(toProblem(error))
    }
  }
}

function findOperation(path: string, method: string): Operation {
  const operation = OPERATIONS.find((each) => each.path === path)
  if (!operation) throw new OperationError('unknown_operation', 404, 'Unknown operation.')
  const { method: Allow } = operation
  if (method === Allow) return operation
  throw new OperationError('method_not_allowed', 405, `Method not allowed; use ${Allow}.`, { headers: { Allow } })
}

async function answer(operation: Operation, request: Request, context: AdminContext): Promise<Response> {
  const { body, query, everyMs } = operation
  const sent = body ? await readJson(request) : Object.fromEntries(new URL(request.url).searchParams)
  const schema = body ?? query
  const input = schema && readInput(schema, sent)
  if (everyMs === undefined) return Response.json(await operation.run(context, input), { headers: HEADERS })
  const stream = streamEvents(() => operation.run(context, input), everyMs)
  return new Response(stream, { headers: { 'Content-Type': 'text/event-stream', ...HEADERS } })
}

/** Server-sent events (WHATWG HTML §9.2): one at once, and one every `everyMs` milliseconds. */
function streamEvents(read: () => Promise<unknown>, everyMs: number): ReadableStream<Uint8Array> {
  let sent = 0
  return new ReadableStream({
    async pull(controller) {
      if (sent > 0) await sleep(everyMs)
      const [name, data] = await read().then(
        (answer) => ['message', answer],
        (error) => ['problem', toProblem(error)],
      )
      controller.enqueue(new TextEncoder().encode(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`))
      if (++sent === MAX_EVENTS) controller.close()
    },
  })
}
