/** TLS of the rate limit service. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { credentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Certificate, CLIENT, CLIENT_AUTHORITY, NEXT_SERVER, SERVER } from '../../support/certificates.ts'
import { DECIDE_TOKEN } from '../../support/decisions.ts'
import { descriptor, RateLimitClient } from '../../support/rate-limit-client.ts'
import { type ServingProcess, startServing } from '../../support/serving-process.ts'
import { runInside } from '../run-command.ts'

const CONFIG = { domain: 'd', descriptors: [{ key: 'k', rate_limit: { unit: 'hour', requests_per_unit: 100 } }] }
/** The names of a certificate's owner, as the two servers have them. */
const [FIRST, SECOND] = ['server-a', 'server-b']

let folder: string
const locate = (name: string) => join(folder, name)
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  writeFileSync(locate('limits.yaml'), JSON.stringify(CONFIG))
  writeFileSync(locate('ca.pem'), CLIENT_AUTHORITY)
})
afterAll(() => rmSync(folder, { recursive: true }))

function writeCertificate({ cert, key }: Certificate): void {
  writeFileSync(locate('cert.pem'), cert)
  writeFileSync(locate('key.pem'), key)
}

const listArgs = () => ['--grpc', '0', '--ratelimit-config', locate('limits.yaml')]
const listTlsArgs = () => ['--grpc-cert', locate('cert.pem'), '--grpc-key', locate('key.pem')]

function openClient({ grpc }: ServingProcess, own?: Certificate, authority = SERVER.cert): RateLimitClient {
  const pair = own ? ([Buffer.from(own.key), Buffer.from(own.cert)] as const) : ([null, null] as const)
  return new RateLimitClient(grpc, credentials.createSsl(Buffer.from(authority), ...pair))
}

const ask = (client: RateLimitClient) => client.ask('d', [descriptor(['k', 'v'])])

/** @returns the name of the owner of the certificate that is shown */
async function readOwner({ grpc }: ServingProcess): Promise<string> {
  const [host = '', port] = grpc.split(':')
  const socket = connect({ host, port: Number(port), rejectUnauthorized: false, ALPNProtocols: ['h2'] })
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject))
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return `${subject.CN}`
}

describe('sluice serve --grpc-cert', () => {
  let serving: ServingProcess
  beforeAll(async () => {
    writeCertificate(SERVER)
    serving = await startServing({ STORE: 'memory' }, [...listArgs(), ...listTlsArgs()])
  })
  afterAll(() => serving.stop())

  test('answers over TLS, and nobody in the clear', async () => {
    using client = openClient(serving)
    expect((await ask(client)).overallCode).toBe('OK')
    using clear = new RateLimitClient(serving.grpc)
    await expect(ask(clear)).rejects.toThrow('14 UNAVAILABLE')
    using stranger = openClient(serving, undefined, CLIENT_AUTHORITY)
    await expect(ask(stranger)).rejects.toThrow('14 UNAVAILABLE')
  })

  test('uses changed certificates, and keeps those that fit while files do not', { tags: ['slow'] }, async () => {
    expect(await readOwner(serving)).toBe(FIRST)
    writeFileSync(locate('cert.pem'), NEXT_SERVER.cert)
    // Longer than it takes to be read.
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    expect(await readOwner(serving)).toBe(FIRST)
    writeCertificate(NEXT_SERVER)
    await expect.poll(() => readOwner(serving), { timeout: 20_000 }).toBe(SECOND)
    const { stderr } = await serving.end()
    expect(stderr.split('\n')).toEqual([
      expect.stringMatching(/^.*cert\.pem, .*key\.pem: .*; the certificates before stay in use$/),
      expect.stringMatching(/^.*cert\.pem: the changed certificates are in use$/),
      '',
    ])
  })
})

test('--grpc-client-ca answers only clients with a certificate of its authorities', async () => {
  writeCertificate(SERVER)
  const serving = await startServing({ STORE: 'memory' }, [
    ...[...listArgs(), ...listTlsArgs()],
    ...['--grpc-client-ca', locate('ca.pem')],
  ])
  onTestFinished(() => serving.stop())
  using client = openClient(serving, CLIENT)
  expect((await ask(client)).overallCode).toBe('OK')
  for (const own of [undefined, NEXT_SERVER]) {
    using stranger = openClient(serving, own)
    await expect(ask(stranger)).rejects.toThrow('14 UNAVAILABLE')
  }
})

test.each([
  ['a key of another certificate', ['--grpc-cert', 'other.pem', '--grpc-key', 'key.pem'], /other\.pem, .*key\.pem: /],
  ['a file that is not there', ['--grpc-cert', 'nowhere.pem', '--grpc-key', 'key.pem'], /nowhere\.pem: ENOENT|ENOENT/],
  ['no key', ['--grpc-cert', 'cert.pem'], /--grpc-cert needs --grpc-key/],
  ['authorities alone', ['--grpc-client-ca', 'ca.pem'], /--grpc-client-ca needs both/],
])('sluice serve does not start with %s', async (_, args, message) => {
  writeCertificate(SERVER)
  writeFileSync(locate('other.pem'), NEXT_SERVER.cert)
  const inFolder = args.map((arg) => (arg.endsWith('.pem') ? locate(arg) : arg))
  const { code, stderr } = await runInside(['serve', '--port', '0', ...listArgs(), ...inFolder], {
    env: { DECIDE_TOKEN, STORE: 'memory' },
  })
  expect([code, stderr]).toEqual([2, expect.stringMatching(message)])
})
