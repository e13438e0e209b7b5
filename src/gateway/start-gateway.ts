/** Starts gateways where an isolate starts: that of the Worker, and that of a Worker of somebody's own. */
import type { ExecutionContext } from 'hono'
import { OptionError } from '../core/options/option-error.ts'
import { consoleLog } from '../core/runtime/log.ts'
import type { Environment } from '../http/config/load-config.ts'
import type { App } from './app/app.ts'
import { createMisconfiguredProblem } from './app/gateway-problem.ts'
import type { Upstream } from './app/proxy.ts'
import { type Host, readSetting } from './compose/setting.ts'
import { composeGateway } from './create-gateway.ts'
import { CONTEXT, runDry } from './run-dry.ts'

/**
 * workerd gives up a script whose modules wait for anything but microtasks. An import of a part waits for all of them, if
 * a bundler has put what both need into a module that is still starting. The longest start takes some 130.
 */
const MAX_TURNS = 1_000

/**
 * Starts the gateway of a Worker. Nothing may stop its start, since the script holds the Durable Objects as well: what
 * fails here, or is not over in time, is left to the first request.
 * @param variables undefined if they are only known with a request
 */
export async function startGateway(variables: Environment | undefined): Promise<App> {
  if (!variables) return startWithFirstRequest()
  const isOwnEnvironment = createEnvironmentTest(variables)
  const started = start(variables, { isOwnEnvironment }).catch((error) => {
    if (error instanceof OptionError) {
      // An app may have no variables of the gateway, and pass them to it.
      const [wrong, other] = [answerMisconfigured(error), startWithFirstRequest()]
      return {
        fetch: (...args: Parameters<App['fetch']>) => (isOwnEnvironment(args[1]) ? wrong : other).fetch(...args),
      }
    }
    consoleLog('error', { event: 'unexpected_error', error: `${error}`, at: 'start' })
    return undefined
  })
  return (await waitForTurns(started)) ?? startWithFirstRequest(started)
}

/** @throws {OptionError} for a wrong variable */
export async function startOwnGateway(env: Environment, upstream: Upstream | undefined) {
  // The app gets the very object that it would be given as a Worker by itself.
  const own: Upstream | undefined = upstream && {
    fetch: (request, _, context) => upstream.fetch(request, env, context),
  }
  const starting = start({ ...env }, { upstream: own })
  await waitForTurns(starting)
  return {
    fetch: async (request: Request, _env?: unknown, context: ExecutionContext = CONTEXT) =>
      (await starting).fetch(request, env, context),
  }
}

async function start(env: Environment, host: Host): Promise<App> {
  const setting = readSetting(env, host)
  const { app } = await composeGateway(setting)
  // Nothing waits for it. Isolates over objects may start to hold one, and handle no request.
  if (setting.config.store === 'redis') runDry(setting).catch(() => {})
  return app
}

/** @returns undefined if it is not done after a number of microtasks @throws its error */
async function waitForTurns<T>(work: Promise<T>): Promise<T | undefined> {
  let isOver = false
  const end = () => {
    isOver = true
  }
  work.then(end, end)
  for (let turns = 0; !isOver && turns < MAX_TURNS; turns++) await undefined
  return isOver ? work : undefined
}

/** @param started is over before the first request, if it ever is */
function startWithFirstRequest(started?: Promise<App | undefined>): App {
  let app: App | undefined
  started?.then((late) => {
    app = late
  })
  return {
    async fetch(request, env, context) {
      // Requests that come meanwhile start one as well: a shared promise may hang on Workers.
      const own = app ?? (await start(env, {}).catch(answerMisconfigured))
      app ??= own
      return own.fetch(request, env, context)
    },
  }
}

/** @returns what answers each request that a variable is wrong, which only the log shows */
function answerMisconfigured(error: unknown): App {
  if (!(error instanceof OptionError)) throw error
  const { variable, message } = error
  consoleLog('error', { event: 'misconfigured', message })
  return { fetch: () => createMisconfiguredProblem(variable) }
}

/** Tests that a request comes with these variables: an app that calls the Worker's `fetch` may pass others. */
function createEnvironmentTest(variables: Environment) {
  let known: Environment | undefined
  return function isOwnEnvironment(env: Environment | undefined): boolean {
    // The runtime passes the same object with each request, though not the one that can be imported.
    if (env === undefined || env === known) return true
    if (Object.keys({ ...variables, ...env }).some((name) => env[name] !== variables[name])) return false
    known = env
    return true
  }
}
