import { inject, onTestFinished } from 'vitest'
import { PLANTED } from '../setup/secret-watch.ts'
import { type DirectGateway, startDirectGateway } from './direct-gateway.ts'
import { type RecordingUpstream, startRecordingUpstream } from './recording-upstream.ts'

export interface ThreatenedGateway extends DirectGateway {
  readonly upstream: RecordingUpstream
}

/** A gateway to attack, over the store in memory unless the bindings name another, and the API that it is to guard. */
export async function startThreatenedGateway(
  bindings: Readonly<Record<string, unknown>> = {},
): Promise<ThreatenedGateway> {
  const upstream = await startRecordingUpstream()
  const gateway = await startDirectGateway({
    bundle: inject('bundle'),
    bindings: {
      UPSTREAM_URL: upstream.url,
      RATE_LIMITS: '100000/1m',
      IDENTITY_SECRET: `${PLANTED}-of-identities`,
      ...bindings,
    },
  })
  return {
    ...gateway,
    upstream,
    async stop() {
      await gateway.stop()
      await upstream.stop()
    },
  }
}

/** The same for one test. */
export async function startOwnThreatenedGateway(
  bindings: Readonly<Record<string, unknown>> = {},
): Promise<ThreatenedGateway> {
  const gateway = await startThreatenedGateway(bindings)
  onTestFinished(() => gateway.stop())
  return gateway
}
