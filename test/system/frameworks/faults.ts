import type { Fault } from '../../planted/faults.ts'

export interface HostFault extends Fault {
  /** Part of the names of the hosts that are asked. */
  readonly host: string
}

/** Mistakes in what adapts the middleware to its hosts: at least one for each adapter. */
export const FAULTS: readonly HostFault[] = [
  {
    name: 'reset-by-handler-unseen',
    host: 'node:http2',
    file: 'src/middleware/node-response.ts',
    find: 'this.#isResetByHandler ||= !stream.closed && stream.session?.destroyed === false',
    replace: 'this.#isResetByHandler ||= false',
  },
  {
    name: 'destroyed-by-handler-unseen',
    host: 'node:http',
    file: 'src/middleware/node-response.ts',
    find: 'return socket?.destroyed === true && !socket.readableEnded && !socket.errored',
    replace: 'return false',
  },
  {
    name: 'end-after-an-abort-unseen',
    host: 'Express 5',
    file: 'src/middleware/node-response.ts',
    find: '      this.#handle(true)\n',
    replace: '',
  },
  {
    name: 'error-not-passed-on',
    host: 'Express 4',
    file: 'src/middleware/node.ts',
    find: '    admit(host).then((follow) => follow?.(next?.()), next)',
    replace: '    admit(host).then((follow) => follow?.(next?.()), () => {})',
  },
  {
    name: 'head-unseen',
    host: 'NestJS 12, Express',
    file: 'src/middleware/node-response.ts',
    find: '    if (!isWritten) listener()\n',
    replace: '',
  },
  {
    name: 'fastify-request-of-node',
    host: 'NestJS 12, Fastify',
    file: 'src/middleware/node.ts',
    find: '  return {\n    subject,\n    req: request.raw,',
    replace: '  return {\n    subject: request.raw as never,\n    req: request.raw,',
  },
  {
    name: 'koa-promise-dropped',
    host: 'Koa 3',
    file: 'src/middleware/node.ts',
    find: 'follow?.(second())',
    replace: 'void follow?.(second())',
  },
  {
    name: 'koa-request-of-node',
    host: 'Koa 3',
    file: 'src/middleware/node.ts',
    find: '    subject: context,',
    replace: '    subject: req as never,',
  },
  {
    name: 'headers-of-lambda-unread',
    host: 'serverless-http',
    file: 'src/middleware/node-request.ts',
    find: '  if (rawHeaders.length === 0) values.push(...[headers[lower] ?? []].flat())\n',
    replace: '',
  },
  {
    name: 'closed-headers',
    host: 'Hono 4.6.0',
    file: 'src/middleware/web.ts',
    find: '    return response\n  } catch {',
    replace: '    return response\n  } catch {\n    if (response.ok) return response',
  },
  {
    name: 'hono-response-not-set',
    host: 'Hono 4, ',
    file: 'src/middleware/hono.ts',
    find: '      c.res = response\n',
    replace: '',
  },
  {
    name: 'fetch-body-that-was-read',
    host: 'Bun.serve',
    file: 'src/middleware/web.ts',
    find: "  if (response.bodyUsed || response.body?.locked) throw new TypeError('the body of the response has been read already')\n",
    replace: '',
  },
]
