/** Asks the admin API that `sluice serve` composes over databases, in this process. */
import { randomBytes } from 'node:crypto'
import type { Environment } from '../../http/config/load-config.ts'
import { type CommandError, createBugError } from '../command-error.ts'
import type { Connection } from '../redis/connection.ts'
import { openDatabases } from '../redis/open-database.ts'
import { createOperator, explainProblem, type Operator, type ProblemBody } from './operator.ts'

/** No operation leaves work behind. */
const CONTEXT = { waitUntil() {}, passThroughOnException() {}, props: {} }

/** @param connections to a database, or to each of several */
export async function operateOverDatabase(connections: readonly Connection[], env: Environment): Promise<Operator> {
  const token = randomBytes(32).toString('base64url')
  const { app } = await openGateway(connections, { ...env, ADMIN_TOKEN: token, ADMIN_HOST: undefined })
  const name = connections.map((connection) => connection.name).join(', ')
  return createOperator({
    name,
    counterpart: { redis: name },
    origin: 'http://localhost',
    token,
    explain,
    fetch: async (request) => app.fetch(request, {}, CONTEXT),
  })
}

/** Composes a gateway over databases. */
export async function openGateway(connections: readonly Connection[], env: Environment) {
  // Who asks a gateway does not wait for it.
  const { createGateway } = await import('../../gateway/create-gateway.ts')
  return createGateway(env, { open: (config) => openDatabases(connections, config) })
}

function explain(_response: Response, problem: ProblemBody | undefined): CommandError {
  if (problem && problem.code !== 'internal_error') return explainProblem(problem)
  return createBugError('unexpected error of the admin API')
}
