import { userInfo } from 'node:os'
import type { Context } from '../subcommand.ts'

/** Who does it, and why if they say so, for the history. */
export function noteOf(
  { env }: Pick<Context, 'env'>,
  { as, why }: { readonly as?: string | undefined; readonly why?: string | undefined },
): { readonly by: string; readonly why?: string } {
  return { by: as ?? (env.USER || env.LOGNAME || nameOfUser()), ...(why !== undefined && { why }) }
}

/** Of the account that runs the process, which need not have a name. */
function nameOfUser(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
