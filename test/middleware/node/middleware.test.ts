/** Every promise of the middleware over real connections. */
import { describeMiddleware } from '../matrix/describe-middleware.ts'
import { NODE_ADAPTERS } from '../matrix/node-adapters.ts'

describeMiddleware(NODE_ADAPTERS)
