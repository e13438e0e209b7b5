import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type RedisServerOptions, startRedisServer } from '../../tools/redis-server.ts'

async function start(options?: RedisServerOptions) {
  const server = await startRedisServer(options)
  onTestFinished(() => server.stop())
  return server
}

/** The reply to one inline command, as Redis sends it. */
async function ask(socket: Socket, command: string): Promise<string> {
  socket.write(`${command}\r\n`)
  const [chunk] = await once(socket, 'data')
  return String(chunk)
}

async function connectTo(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

test('startRedisServer() resolves when Redis answers', async () => {
  const server = await start()
  expect(await ask(await connectTo(server.port), 'PING')).toBe('+PONG\r\n')
})

test('startRedisServer() listens on 127.0.0.1 only and saves nothing', async () => {
  const socket = await connectTo((await start()).port)
  expect(await ask(socket, 'CONFIG GET bind')).toContain('\r\n127.0.0.1\r\n')
  expect(await ask(socket, 'CONFIG GET save')).toContain('\r\n$0\r\n')
  expect(await ask(socket, 'CONFIG GET appendonly')).toContain('\r\nno\r\n')
})

test('startRedisServer() hands options on to Redis', async () => {
  const server = await start({ args: ['--maxmemory', '3mb'] })
  expect(await ask(await connectTo(server.port), 'CONFIG GET maxmemory')).toContain('\r\n3145728\r\n')
})

test('startRedisServer() throws with the log of Redis if the port is taken', async () => {
  const { port } = await start()
  await expect(startRedisServer({ port })).rejects.toThrow(/did not start on port \d+: [\s\S]*Address already in use/)
})

test('startRedisServer() throws if there is no such executable', async () => {
  await expect(startRedisServer({ binary: '/nowhere/redis-server' })).rejects.toThrow('ENOENT')
})

test('stop() leaves no process and may be repeated', async () => {
  const server = await startRedisServer()
  await server.stop()
  expect(() => process.kill(server.pid, 0)).toThrow('ESRCH')
  await server.stop()
})

test('startRedisServer() takes the port of a server that was killed', async () => {
  const { port, pid, exited } = await start()
  process.kill(pid, 'SIGKILL')
  expect(await exited).toContain('Ready to accept connections')
  const next = await start({ port })
  expect(next.port).toBe(port)
})

test('startRedisServer() leaves no folder if its process ends while it starts', async () => {
  const tmp = await mkdtemp(join(tmpdir(), 'sluice-interrupted-'))
  onTestFinished(() => rm(tmp, { recursive: true }))
  // At the first moment at which there is a folder.
  const program = `
    import { readdirSync } from 'node:fs'
    import { startRedisServer } from ${JSON.stringify(join(import.meta.dirname, '../../tools/redis-server.ts'))}
    startRedisServer()
    for (;;) {
      await new Promise(setImmediate)
      if (readdirSync(${JSON.stringify(tmp)}).length > 0) process.exit(0)
    }`
  const args = ['--input-type=module', '--eval', program]
  const child = spawn(process.execPath, args, { stdio: 'inherit', env: { ...process.env, TMPDIR: tmp } })
  expect(await once(child, 'exit')).toEqual([0, null])
  expect(await readdir(tmp)).toEqual([])
})

test.for(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
  'startRedisServer() ends with a process that gets %s',
  async (signal) => {
    const program = `
    const { startRedisServer } = await import(${JSON.stringify(join(import.meta.dirname, '../../tools/redis-server.ts'))})
    console.log((await startRedisServer()).port)`
    const parent = spawn(process.execPath, ['--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [port] = await once(parent.stdout, 'data')
    const socket = await connectTo(Number(port))
    socket.resume()
    // A connection may be reset as well as closed.
    socket.on('error', () => {})
    const closed = new Promise((resolve) => socket.once('close', resolve))
    parent.kill(signal)
    await closed
  },
)
