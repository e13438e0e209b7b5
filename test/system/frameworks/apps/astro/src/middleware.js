import { limit } from 'sluice/fetch'
import { options } from '../../options.js'

const limited = limit((_request, _context, next) => next(), {
  ...options,
  trustProxy: (_request, { clientAddress }) => clientAddress,
})
export const onRequest = (context, next) => (context.isPrerendered ? next() : limited(context.request, context, next))
