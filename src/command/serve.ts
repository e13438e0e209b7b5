/** `sluice serve`: answers proxies and other programs over HTTP, by the limits of a configuration. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Option } from '@commander-js/extra-typings'
import type { getRequestListener } from '@hono/node-server'
import { DecisionWatch } from '../core/engine/decision-watch.ts'
import { OptionError } from '../core/options/option-error.ts'
import { listNames } from '../core/runtime/lists.ts'
import { consoleLog, createHook, throttle } from '../core/runtime/log.ts'
import { openMemoryBackend } from '../core/store/memory/memory-store.ts'
import type { App, DecisionHook, GatewayContext } from '../gateway/app/app.ts'
import type { Config } from '../http/config/load-config.ts'
import { findStoreKind, STORE_KINDS } from '../http/config/store-kinds.ts'
import { integer } from '../http/config/values.ts'
import { createProblemResponse, NOT_SERVED, TARGET_PROBLEMS } from '../http/response/problem.ts'
import type { RateLimitServer } from '../ratelimit-service/server.ts'
import { CommandError, findCause } from './command-error.ts'
import { createOption, duration } from './read-option.ts'
import { connect } from './redis/connection.ts'
import { openDatabases } from './redis/open-database.ts'
import { readSettings } from './settings/settings.ts'
import { CONFIG, defineCommand, ENV, REDIS } from './subcommand.ts'
import { withoutPositions } from './worker-config.ts'

const PORT = 8788
/** A connection to Redis that is silent for so long is made anew. */
const SILENCE_MS = 5_000
/** Requests that are still being answered have so long; orchestrators commonly kill after 30 seconds. */
const DRAIN_MS = 10_000
const DRAIN_EVERY_MS = 50
/** Clients that keep a connection find processes that were added only when they connect anew. */
const MAX_CONNECTION_AGE_MS = 300_000
/** Connections that are kept may be used once more for so long. */
const GRACE_MS = 500
/** Longer than proxies keep idle connections: they would send a request into one that is just being closed. */
const KEEP_ALIVE_MS = 180_000

export const serve = defineCommand({
  name: 'serve',
  summary: 'decide for other programs and for proxies',
  description:
    'Answers POST /_sluice/decide and the questions of proxies at /_sluice/authorize, by the policies of the Worker, for those ' +
    'who have DECIDE_TOKEN, and forwards nothing. Processes with one Redis share all counts; with STORE=memory, each ' +
    'counts for itself. RULES, STATISTICS and ADMIN_TOKEN mean the same as in the Worker. On SIGTERM or Ctrl-C it answers ' +
    'what it has begun to, and ends.',
  examples: {
    'serve --redis redis://10.0.0.5:6379': 'on this machine alone, at port 8788',
    'serve --host 0.0.0.0 --port 80': 'for other machines, with the database of REDIS_URL',
  },
  hasJson: false,
  declare: (command) =>
    command
      .addOption(
        createOption('--port <number>', '0 takes any that is free', integer(0, 65_535)).env('PORT').default(PORT),
      )
      .addOption(new Option('--host <address>', 'where it listens').default('127.0.0.1'))
      .addOption(createOption('--grpc <port>', 'answer Envoy’s rate limit service there, too', integer(0, 65_535)))
      .addOption(new Option('--ratelimit-config <path>', 'with --grpc: file or folder of its reference server'))
      .addOption(new Option('--ratelimit-xds <address>', 'in its place: host and port of a management server of xDS'))
      .addOption(
        new Option('--ratelimit-xds-node <id>', 'name of this node there')
          .env('CONFIG_GRPC_XDS_NODE_ID')
          .default('default'),
      )
      .addOption(
        new Option('--ratelimit-xds-ca <file>', 'authorities of that server, for TLS').env(
          'CONFIG_GRPC_XDS_SERVER_TLS_CACERT',
        ),
      )
      .addOption(
        new Option('--ratelimit-xds-cert <file>', 'certificate to show there').env('CONFIG_GRPC_XDS_CLIENT_TLS_CERT'),
      )
      .addOption(new Option('--ratelimit-xds-key <file>', 'its private key').env('CONFIG_GRPC_XDS_CLIENT_TLS_KEY'))
      .addOption(new Option('--grpc-cert <file>', 'with --grpc: its certificates, for TLS'))
      .addOption(new Option('--grpc-key <file>', 'with --grpc-cert: its private key'))
      .addOption(new Option('--grpc-client-ca <file>', 'with --grpc-cert: authorities of clients'))
      .addOption(
        createOption('--grpc-max-connection-age <duration>', 'with --grpc: then a client connects anew', duration)
          .env('GRPC_MAX_CONNECTION_AGE')
          .default(MAX_CONNECTION_AGE_MS, '5m'),
      )
      .addOption(
        createOption('--grpc-max-connection-age-grace <duration>', 'for what it has begun by then', duration)
          .env('GRPC_MAX_CONNECTION_AGE_GRACE')
          .default(DRAIN_MS, '10s'),
      )
      .addOption(new Option('--each-descriptor', 'with --grpc: charge each descriptor by itself, not all or none'))
      .addOption(new Option('--on-decision <file>', 'module whose default export is called with each decision'))
      .addOption(REDIS)
      .addOption(CONFIG)
      .addOption(ENV),
  async run({ terminal, env, cwd, signal }, options) {
    const { port, host, redis, config, env: environment } = options
    const settings = readSettings({ cwd, shell: env, config, env: environment, view: 'development' })
    const { variables } = settings
    if (variables.DECIDE_TOKEN === undefined) {
      throw new OptionError('DECIDE_TOKEN', 'at least 32 characters, for those who ask', undefined)
    }
    if (variables.STORE_MIRROR !== undefined) {
      throw new OptionError('STORE_MIRROR', 'nothing with sluice serve, which has one store', variables.STORE_MIRROR)
    }
    const kind = redis === undefined ? findStoreKind(variables.STORE) : undefined
    if (kind && kind.inCommand === undefined) {
      const own = listNames(STORE_KINDS).filter((name) => STORE_KINDS[name].inCommand)
      const expected = `${own.map((name) => `"${name}"`).join(' or ')} with sluice serve, or --redis`
      throw new OptionError('STORE', expected, variables.STORE)
    }
    const onDecision = options.onDecision === undefined ? undefined : await loadHook(options.onDecision, cwd)
    const ended = Promise.race([once(process, 'SIGTERM'), once(signal, 'abort')])
    const ending = new AbortController()
    void ended.then(() => ending.abort())
    const onAway = (reason: string) => terminal.note(`${reason}: until it is, ON_STORE_ERROR decides`)
    const connections =
      kind?.inCommand === 'memory' ? [] : await connect(settings, env, redis, { silenceMs: SILENCE_MS, onAway })
    try {
      const upstream = { fetch: async () => createProblemResponse(NOT_SERVED) }
      // Subcommands that serve nobody do not wait for them.
      const { createGateway } = await import('../gateway/create-gateway.ts')
      const { getRequestListener } = await import('@hono/node-server')
      const pending = new Set<Promise<unknown>>()
      const serveRateLimits = await loadRateLimits(options, cwd, (text) => terminal.note(text))
      const isRemote = connections.length > 0
      const gateway = await createGateway(
        { ...withoutPositions(settings), UPSTREAM: upstream },
        {
          open: (config, now) =>
            isRemote ? openDatabases(connections, config, config.storeTimeoutMs) : openMemoryBackend(now),
          createWatch: onDecision && ((next) => Object.assign(new DecisionWatch({ isRemote }, next), { onDecision })),
          ending: ending.signal,
        },
      )
      const waitUntil = createWaitUntil(pending)
      const grpcServer = await serveRateLimits?.(gateway.config, gateway.gateway, waitUntil, ending.signal)
      const fetch = await serveHttp(gateway.app.fetch, gateway.config, grpcServer)
      const isLast = () => ending.signal.aborted
      const server = createServer(createListener(getRequestListener, fetch, waitUntil, isLast)).listen(port, host)
      server.keepAliveTimeout = KEEP_ALIVE_MS
      await once(server, 'listening').catch(async (error: Error) => {
        await grpcServer?.drain(0)
        throw new CommandError(`cannot listen at ${host}:${port} (${findCause(error)})`)
      })
      const { port: bound } = server.address() as AddressInfo
      const shown = host.includes(':') ? `[${host}]` : host
      const counting = connections.map(({ name }) => name).join(', ') || 'this process alone'
      const grpc = grpcServer ? ` and grpc://${shown}:${grpcServer.port}` : ''
      terminal.show({}, () => `sluice serve: http://${shown}:${bound}/_sluice/${grpc}, counting in ${counting}`)
      await ended
      await Promise.all([drain(server, pending), grpcServer?.drain(DRAIN_MS)])
      return 'done'
    } finally {
      await Promise.all(connections.map((connection) => connection.close()))
    }
  },
})

/** Loads the function of `--on-decision`. @throws {CommandError} if there is none */
async function loadHook(file: string, cwd: string): Promise<DecisionHook['onDecision']> {
  const option = '--on-decision'
  const refuse = (why: string) =>
    new CommandError(`${new OptionError(option, 'a module whose default export is a function', file).message}${why}`)
  const module = await import(pathToFileURL(resolve(cwd, file)).href).catch((error: unknown) => {
    throw refuse(`: ${error instanceof Error ? error.message.split('\n')[0] : 'it failed'}`)
  })
  const given = typeof module.default === 'function' ? module.default : undefined
  const hook = createHook<Parameters<DecisionHook['onDecision']>>(option, given, throttle(consoleLog, Date.now))
  if (!hook) throw refuse('')
  return hook
}

/** @param isLast tells that clients are to open another connection, to another process, before they send more */
function createListener(adapt: typeof getRequestListener, fetch: Fetch, waitUntil: WaitUntil, isLast: () => boolean) {
  const context = { waitUntil, passThroughOnException() {}, props: {} }
  const decide = (request: Request) => {
    // The adapter lets hosts through that are none, such as 999.1.1.1.
    if (!URL.canParse(request.url)) return createProblemResponse(TARGET_PROBLEMS.malformed)
    return fetch(request, {}, context)
  }
  const answer = adapt(async (request, { incoming, outgoing }) => {
    const response = await decide(request)
    // The rest of a body that is not read would be taken for the next request.
    if ((isLast() || !incoming.complete) && 'shouldKeepAlive' in outgoing) outgoing.shouldKeepAlive = false
    return response
  })
  return (incoming: IncomingMessage, outgoing: ServerResponse) => {
    setPeer(incoming)
    return answer(incoming, outgoing)
  }
}

type Fetch = App['fetch']

/** Serves what is below `/_sluice/`, and what is asked of the rate limit service over HTTP; its metrics if anybody may read them. */
async function serveHttp(
  fetch: Fetch,
  { metrics, decideToken }: Config,
  server: RateLimitServer | undefined,
): Promise<Fetch> {
  const serveOwn: Fetch = async (request, ...rest) => {
    const isOwn = new URL(request.url).pathname.startsWith('/_sluice/')
    return isOwn ? fetch(request, ...rest) : createProblemResponse(NOT_SERVED)
  }
  if (!server) return serveOwn
  const { createHitMetrics, HIT_METRICS_PATH } = await import('./hit-metrics.ts')
  const { createRateLimitRoutes } = await import('./ratelimit-routes.ts')
  const routes = new Map(createRateLimitRoutes(server, decideToken ?? ''))
  if (metrics)
    routes.set(
      HIT_METRICS_PATH,
      createHitMetrics(metrics.token, () => server.listCounts()),
    )
  return async (request, ...rest) => {
    const response = await routes.get(new URL(request.url).pathname)?.(request)
    return response ?? serveOwn(request, ...rest)
  }
}

type WaitUntil = (work: Promise<unknown>) => void

function createWaitUntil(pending: Set<Promise<unknown>>): WaitUntil {
  return function waitUntil(work) {
    pending.add(work)
    const remove = () => pending.delete(work)
    work.then(remove, remove)
  }
}

interface RateLimitOptions {
  readonly host: string
  readonly grpc?: number | undefined
  readonly grpcCert?: string | undefined
  readonly grpcKey?: string | undefined
  readonly grpcClientCa?: string | undefined
  readonly grpcMaxConnectionAge: number
  readonly grpcMaxConnectionAgeGrace: number
  readonly ratelimitConfig?: string | undefined
  readonly ratelimitXds?: string | undefined
  readonly ratelimitXdsNode: string
  readonly ratelimitXdsCa?: string | undefined
  readonly ratelimitXdsCert?: string | undefined
  readonly ratelimitXdsKey?: string | undefined
  readonly eachDescriptor?: true | undefined
}

/** Loads the rate limit service, if it is wanted. @returns what starts it */
async function loadRateLimits(options: RateLimitOptions, cwd: string, note: (text: string) => void) {
  const { host, grpc, grpcCert, grpcKey, grpcClientCa, ratelimitConfig, ratelimitXds, eachDescriptor } = options
  if (grpc === undefined || (ratelimitConfig ?? ratelimitXds) === undefined) {
    const stray = grpc ?? ratelimitConfig ?? ratelimitXds ?? eachDescriptor ?? grpcCert ?? grpcKey ?? grpcClientCa
    if (stray === undefined) return undefined
    throw new CommandError('--grpc needs --ratelimit-config or --ratelimit-xds, and the other way round')
  }
  if (ratelimitConfig !== undefined && ratelimitXds !== undefined) {
    throw new CommandError('--ratelimit-config and --ratelimit-xds cannot be given together')
  }
  const locate = (file: string | undefined) => (file === undefined ? undefined : resolve(cwd, file))
  const xdsFiles = {
    ca: locate(options.ratelimitXdsCa),
    cert: locate(options.ratelimitXdsCert),
    key: locate(options.ratelimitXdsKey),
  }
  if ((xdsFiles.cert === undefined) !== (xdsFiles.key === undefined) || (xdsFiles.cert && !xdsFiles.ca)) {
    throw new CommandError('--ratelimit-xds-cert needs --ratelimit-xds-key and --ratelimit-xds-ca')
  }
  if ((grpcCert === undefined) !== (grpcKey === undefined) || (grpcClientCa !== undefined && grpcCert === undefined)) {
    throw new CommandError('--grpc-cert needs --grpc-key, and the other way round; --grpc-client-ca needs both')
  }
  const [cert, key] = [locate(grpcCert), locate(grpcKey)]
  const tls = cert && key ? { cert, key, clientCa: locate(grpcClientCa) } : undefined
  const { startRateLimitServer } = await import('../ratelimit-service/server.ts').catch(explainMissing)
  const { openConfig } = await import('../ratelimit-service/watch-config.ts')
  const { openXdsConfig } = await import('../ratelimit-service/xds-config.ts').catch(explainMissing)
  return async function start(
    config: Config,
    { engine, watch, now, log }: GatewayContext,
    waitUntil: WaitUntil,
    signal: AbortSignal,
  ): Promise<RateLimitServer> {
    try {
      const xds = { address: ratelimitXds ?? '', nodeId: options.ratelimitXdsNode, ...xdsFiles }
      const watched =
        ratelimitConfig === undefined
          ? await openXdsConfig(xds, config.onStoreError, note, signal)
          : openConfig(resolve(cwd, ratelimitConfig), config.onStoreError, note)
      const isEachAlone = eachDescriptor === true
      const { grpcMaxConnectionAge: maxConnectionAgeMs, grpcMaxConnectionAgeGrace: maxConnectionAgeGraceMs } = options
      const server = { watched, waitUntil, host, port: grpc, tls, note, maxConnectionAgeMs, maxConnectionAgeGraceMs }
      return await startRateLimitServer({ engine, config, watch, now, log, isEachAlone, ...server })
    } catch (error) {
      throw new CommandError((error as Error).message)
    }
  }
}

function explainMissing(error: Error & { readonly code?: string }): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
  throw new CommandError('--grpc needs two packages that are not installed', {
    hint: 'npm install @grpc/grpc-js @grpc/proto-loader',
  })
}

/** Sets the header by which Cloudflare names a client, and which a client here can send itself. */
function setPeer({ rawHeaders, socket }: IncomingMessage): void {
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    if (/^cf-connecting-ip$/i.test(rawHeaders[at] as string)) rawHeaders.splice(at, 2)
  }
  rawHeaders.push('CF-Connecting-IP', socket.remoteAddress ?? '')
}

async function drain(server: Server, pending: ReadonlySet<Promise<unknown>>): Promise<void> {
  const closed = once(server, 'close')
  // What is on its way in a connection that is kept is still answered.
  const isConnected = await new Promise((resolve) => server.getConnections((_, count) => resolve(count > 0)))
  if (isConnected) await sleep(GRACE_MS)
  server.close()
  // A connection is idle only once its response has ended.
  const closing = setInterval(() => server.closeIdleConnections(), DRAIN_EVERY_MS)
  const late = sleep(DRAIN_MS, undefined, { ref: false })
  await Promise.race([closed, late])
  clearInterval(closing)
  server.closeAllConnections()
  await Promise.race([Promise.allSettled(pending), late])
}
