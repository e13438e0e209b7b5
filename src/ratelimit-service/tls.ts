/** The certificates of the gRPC server. Changed files are read again, so that none expires while it runs. */
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { experimental, ServerCredentials } from '@grpc/grpc-js'

const READ_EVERY_MS = 1_000

export interface TlsFiles {
  readonly cert: string
  readonly key: string
  /** Only clients with a certificate of these authorities are answered. */
  readonly clientCa?: string | undefined
}

/**
 * @param note is told that changed certificates are used, or why not: those before then stay in use
 * @throws {Error} if they cannot be read, or do not fit together
 */
export function readCredentials(files: TlsFiles | undefined, note: (text: string) => void): ServerCredentials {
  if (!files) return ServerCredentials.createInsecure()
  const provider = openCertificates(files, note)
  const authorities = files.clientCa === undefined ? null : provider
  return experimental.createCertificateProviderServerCredentials(provider, authorities, authorities !== null)
}

/** Replaces the provider of grpc-js, which does not check whether a key that is just being replaced fits its certificate, and would end the process. */
function openCertificates(files: TlsFiles, note: (text: string) => void): experimental.CertificateProvider {
  let latest = readFiles(files)
  let lastProblem = ''
  const identityListeners = new Set<experimental.IdentityCertificateUpdateListener>()
  const caListeners = new Set<experimental.CaCertificateUpdateListener>()
  const read = () => {
    try {
      const changed = readFiles(files)
      lastProblem = ''
      if (JSON.stringify(changed) === JSON.stringify(latest)) return
      latest = changed
      for (const listener of identityListeners) listener(latest)
      for (const listener of caListeners) listener(latest)
      note(`${files.cert}: the changed certificates are in use`)
    } catch (error) {
      const problem = `${(error as Error).message}; the certificates before stay in use`
      if (problem !== lastProblem) note(problem)
      lastProblem = problem
    }
  }
  setInterval(read, READ_EVERY_MS).unref()
  return {
    addIdentityCertificateListener(listener) {
      identityListeners.add(listener)
      process.nextTick(() => listener(latest))
    },
    addCaCertificateListener(listener) {
      caListeners.add(listener)
      process.nextTick(() => listener(latest))
    },
    removeIdentityCertificateListener: (listener) => void identityListeners.delete(listener),
    removeCaCertificateListener: (listener) => void caListeners.delete(listener),
  }
}

function readFiles({ cert, key, clientCa }: TlsFiles) {
  try {
    const certificate = readFileSync(cert)
    const privateKey = readFileSync(key)
    const caCertificate = clientCa === undefined ? Buffer.alloc(0) : readFileSync(clientCa)
    createSecureContext({ cert: certificate, key: privateKey, ...(clientCa !== undefined && { ca: caCertificate }) })
    return { certificate, privateKey, caCertificate }
  } catch (error) {
    throw new Error(`${[cert, key, clientCa].filter(Boolean).join(', ')}: ${(error as Error).message}`)
  }
}
