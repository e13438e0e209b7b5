/** What the middleware promises in every host, each as a question to a small app there. */
import { request as requestHttp } from 'node:http'
import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'

const KEYS = { limits: '1/1h', by: 'header:x-api-key', anonymous: 'deny' }
const SLOT = { policies: [{ name: 'slot', limits: '1', algorithm: 'concurrency', slot_ttl: '1h', by: 'ip' }] }
const WAIT_MS = 3_000
let delay = () => 0
const DELAYED = { ...SLOT, delay: () => delay() }

/** Reads the user where authentication leaves it in each framework. */
const readUser = (argument) => (argument.user ?? argument.state?.user ?? argument.var?.user)?.id

/** Authenticates by a header. */
export const authenticate = (headers) => (headers['x-user'] ? { id: `${headers['x-user']}` } : undefined)

/** Answers are compared as text, which the table shows if they differ. */
async function expectAnswers(expected, answers) {
  const got = []
  for (const answer of answers) got.push(await answer())
  return `${got}` === `${expected}` ? 'yes' : `${got}`
}

async function expectField(answer, names) {
  const { status, headers } = answer
  const missing = names.filter((name) => !headers[name])
  return missing.length === 0 ? 'yes' : `${status}, no ${missing.join(', ')}`
}

/** Asks again until the slot is free: nothing says when a server has seen that a client went. */
async function expectFreeSlot(app) {
  for (const endMs = Date.now() + WAIT_MS; Date.now() < endMs; ) {
    const { status } = await app.send('/')
    if (status === 200) return 'yes'
    if (status !== 429) return `${status}`
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  return 'leaks'
}

/** By name: options of the middleware, and a function to the cell of the table. */
export const PROMISES = {
  'headers seen': [
    KEYS,
    async (app) => {
      const ask = (key) => async () => (await app.send('/', key ? { 'x-api-key': key } : {})).status
      return expectAnswers([200, 200, 429, 401], [ask('a'), ask('b'), ask('a'), ask('')])
    },
  ],
  'functions see users': [
    { limits: '2/1h', anonymous: 'deny', identify: (argument) => readUser(argument) },
    async (app) => {
      if (app.isAnonymous) return ''
      const ask = (user) => async () => (await app.send('/', user ? { 'x-user': user } : {})).status
      return expectAnswers([200, 200, 429, 200, 401], [ask('a'), ask('a'), ask('a'), ask('b'), ask('')])
    },
  ],
  "the app's headers on refusals": [
    KEYS,
    async (app) => expectField(await app.send('/'), ['access-control-allow-origin']),
  ],
  fields: [
    KEYS,
    async (app) => {
      const key = { 'x-api-key': 'a' }
      const admitted = await expectField(await app.send('/', key), ['ratelimit', 'ratelimit-policy'])
      if (admitted !== 'yes') return admitted
      return expectField(await app.send('/', key), ['ratelimit', 'ratelimit-policy', 'retry-after'])
    },
  ],
  error: [
    { limits: '2/1h', by: 'ip' },
    async (app) => {
      const ask = (path) => async () => (await app.send(path)).status
      return expectAnswers([500, 200, 429], [ask('/throw'), ask('/'), ask('/')])
    },
  ],
  'error of a function': [
    {
      limits: '2/1h',
      identify() {
        throw new Error('thrown')
      },
    },
    async (app) => expectAnswers([500], [async () => (await within(app.send('/'))).status]),
  ],
  streaming: [
    SLOT,
    async (app) => {
      const { status, body } = await app.send('/stream')
      return status === 200 && body === 'onetwothree' ? 'yes' : `${status} ${body}`
    },
  ],
  'slot after end': [
    SLOT,
    async (app) => {
      const { status } = await app.send('/')
      return status === 200 ? expectFreeSlot(app) : `${status}`
    },
  ],
  'after a throw': [
    SLOT,
    async (app) => {
      await app.send('/throw')
      return expectFreeSlot(app)
    },
  ],
  'after an abort': [SLOT, (app) => expectFreeSlotAfterAbort(app, '/gone')],
  'abort, then a throw': [SLOT, (app) => expectFreeSlotAfterAbort(app, '/gone-throw')],
  'abort while delayed': [
    DELAYED,
    async (app) => {
      if (!app.abort) return ''
      const begun = new Promise((resolve) => {
        delay = () => {
          delay = () => 0
          resolve()
          return 3_600_000
        }
      })
      await app.abort('/', () => begun)
      return expectFreeSlot(app)
    },
  ],
  'response destroyed': [SLOT, (app) => expectFreeSlotAfterDestroy(app, '/destroy-response')],
  'request destroyed': [SLOT, (app) => expectFreeSlotAfterDestroy(app, '/destroy-request')],
  'socket destroyed': [SLOT, (app) => expectFreeSlotAfterDestroy(app, '/destroy-socket')],
  'abort in a callback': [SLOT, async (app) => (app.isWeb ? '' : expectFreeSlotAfterAbort(app, '/gone?callback'))],
  'abort in a stream': [SLOT, async (app) => (app.isWeb ? '' : expectFreeSlotAfterAbort(app, '/endless'))],
  'response destroyed in a callback': [SLOT, (app) => expectFreeSlotAfterDestroy(app, '/destroy-response?callback')],
  'request destroyed in a callback': [SLOT, (app) => expectFreeSlotAfterDestroy(app, '/destroy-request?callback')],
  'socket destroyed in a callback': [SLOT, (app) => expectFreeSlotAfterDestroy(app, '/destroy-socket?callback')],
  'stream reset': [
    SLOT,
    async (app) => {
      if (!app.reset) return ''
      await app.reset('/gone-return')
      return expectFreeSlot(app)
    },
  ],
  'used body': [
    SLOT,
    async (app) => {
      if (!app.isWeb) return ''
      const { status } = await within(app.send('/used'))
      return status === 500 || status === 0 ? expectFreeSlot(app) : `${status}`
    },
  ],
  'body of fetch': [
    { limits: '2/1h', by: 'ip' },
    async (app) => {
      if (!app.isWeb) return ''
      const answer = await within(app.send('/fetch'))
      return answer.status === 200 ? expectField(answer, ['ratelimit']) : `${answer.status}`
    },
  ],
  inject: [
    KEYS,
    async (app) => {
      if (!app.inject) return ''
      const ask = (key) => async () => (await app.inject('/', key ? { 'x-api-key': key } : {})).status
      return expectAnswers([200, 200, 429, 401], [ask('a'), ask('b'), ask('a'), ask('')])
    },
  ],
}

async function expectFreeSlotAfterAbort(app, path) {
  if (!app.abort) return ''
  await app.abort(path)
  return expectFreeSlot(app)
}

async function expectFreeSlotAfterDestroy(app, path) {
  // To destroy a request of HTTP/2 ends nothing: its stream stays open.
  if (!app.canDestroy || (app.reset && path.startsWith('/destroy-request'))) return ''
  await within(app.send(path)).catch(() => {})
  return expectFreeSlot(app)
}

/** @returns an answer without a status if there is none in time */
async function within(answer) {
  let timer
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve({ status: 'hangs', headers: {} }), WAIT_MS)
  })
  return Promise.race([answer, late]).finally(() => clearTimeout(timer))
}

/** The client of an app that listens on a port. */
export function overHttp(port, handlers) {
  const open = (path, headers) => requestHttp({ port, host: '127.0.0.1', path, headers, agent: false }).end()
  return {
    send: (path, headers) =>
      new Promise((resolve, reject) => {
        open(path, headers)
          .once('error', reject)
          .once('response', async (response) => {
            const { statusCode: status, headers } = response
            resolve({ status, headers, body: await text(response).catch(() => 'cut off') })
          })
      }).catch(() => ({ status: 0, headers: {} })),
    async abort(path, begun = handlers.begun) {
      const client = open(path).on('error', () => {})
      await begun()
      client.destroy()
    },
  }
}

/** The client of an app that speaks HTTP/2 on a port. */
export function overHttp2(port, handlers) {
  let session
  function open(path, headers) {
    if (!session || session.destroyed) session = connect(`http://127.0.0.1:${port}`).on('error', () => {})
    return session.request({ ':path': path, ...headers }).on('error', () => {})
  }
  async function reset(path, begun = handlers.begun) {
    const stream = open(path)
    await begun()
    stream.close(8)
  }
  return {
    send: (path, headers) =>
      new Promise((resolve) => {
        const stream = open(path, headers)
        stream.once('close', () => resolve({ status: 0, headers: {} }))
        stream.once('response', async ({ ':status': status, ...headers }) =>
          resolve({ status, headers, body: await text(stream).catch(() => 'cut off') }),
        )
      }),
    abort: reset,
    reset,
    end: () => session?.destroy(),
  }
}
