/** Functions of an application get what its framework gives handlers, where authentication has left what it knows. */
import fastify, { type FastifyRequest } from 'fastify'
import { expect, test } from 'vitest'
import { sluice } from '../../../src/node.ts'

interface User {
  readonly id: string
  readonly plan?: string
}

const as = (id: string) => ({ url: '/', headers: { 'x-user': id } })
const USERS = ['a', 'a', 'b', 'b', 'c']

/** An app whose authentication leaves a user on Fastify's own request. */
function createApp() {
  const app = fastify()
  app.decorateRequest('user')
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { user: { id: `${request.headers['x-user']}`, plan: 'pro' } satisfies User })
  })
  return app
}

type Authenticated = FastifyRequest & { readonly user?: User }

test('a hook of Fastify gives functions its own request', async () => {
  const app = createApp()
  const seen: (string | undefined)[] = []
  const limit = sluice<Authenticated>({
    limits: '2/1h',
    plans: { pro: '2/1h' },
    anonymous: 'deny',
    identify: ({ user }) => user?.id,
    plan: ({ user }) => user?.plan,
    cost: ({ user }) => (user?.id === 'b' ? 2 : 1),
    skip: ({ user }) => user?.id === 'c',
    delay: (_, { user }) => {
      seen.push(user?.id)
      return 0
    },
    trustProxy: ({ ip }) => ip,
    onLimited: ({ user }, res) => void res.end(`wait, ${user?.id}`),
  })
  app.addHook('onRequest', limit)
  app.get('/', (request) => request.raw.headers['x-user'])
  const answers = []
  for (const id of [...USERS, 'a']) {
    const { statusCode, payload } = await app.inject(as(id))
    answers.push([statusCode, payload])
  }
  expect(answers).toEqual([
    ...[
      [200, 'a'],
      [200, 'a'],
      [200, 'b'],
      [429, 'wait, b'],
      [200, 'c'],
      [429, 'wait, a'],
    ],
  ])
  expect(seen).toEqual(['a', 'a', 'b'])
})

test('a function that has never told anything is warned of once', async () => {
  const app = createApp()
  const lines: unknown[] = []
  const log = (_: string, line: unknown) => void lines.push(line)
  app.addHook('onRequest', sluice({ limits: '1000/1h', identify: () => undefined, log }))
  app.get('/', () => 'hello')
  for (let sent = 0; sent < 150; sent++) await app.inject(as('a'))
  const known = lines.filter((line) => JSON.stringify(line).includes('unknown_identity'))
  expect(known).toMatchObject([{ message: expect.stringContaining('identify') }])
})

test('a function that knows some callers, or is asked seldom, is not warned of', async () => {
  const app = createApp()
  const lines: unknown[] = []
  const log = (_: string, line: unknown) => void lines.push(line)
  let calls = 0
  app.addHook('onRequest', sluice({ limits: '1000/1h', identify: () => (++calls === 90 ? 'a' : undefined), log }))
  app.get('/', () => 'hello')
  for (let sent = 0; sent < 150; sent++) await app.inject(as('a'))
  expect(lines).not.toContainEqual(expect.objectContaining({ event: 'unknown_identity' }))
})
