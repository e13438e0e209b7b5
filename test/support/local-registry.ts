/** A registry of npm that has packed files, and sends whoever asks for other packages to the real one. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface LocalRegistry {
  readonly url: string
  stop(): Promise<void>
}

/** @param packed files by the name of their package, with their manifests */
export async function startLocalRegistry(
  packed: readonly { readonly path: string; readonly manifest: { readonly name: string; readonly version: string } }[],
): Promise<LocalRegistry> {
  const tarballs = new Map<string, Buffer>()
  for (const { path, manifest } of packed) tarballs.set(manifest.name, await readFile(path))
  const server = createServer((request, response) => {
    const [, name = '', ending] = /^\/([^/?]+)(\/-\/tarball)?$/.exec(request.url ?? '') ?? []
    const manifest = packed.find((each) => each.manifest.name === name)?.manifest
    const tarball = tarballs.get(name)
    if (!manifest || !tarball) {
      response.writeHead(302, { Location: `https://registry.npmjs.org${request.url}` }).end()
    } else if (ending) response.end(tarball)
    else {
      const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
      const dist = { tarball: `http://${request.headers.host}/${name}/-/tarball`, integrity }
      const versions = { [manifest.version]: { ...manifest, dist } }
      response.end(JSON.stringify({ name, 'dist-tags': { latest: manifest.version }, versions }))
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
