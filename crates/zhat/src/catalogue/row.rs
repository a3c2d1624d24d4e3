//! One row of the catalogue: a method for a kind of model, its queries and its options.

use std::any::TypeId;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::{AnyModel, Kind, Model, Summary};
use crate::options::{self, Options, Range, Settings};
use crate::query::{
    self, AnyAnswer, AnyValue, Differentiable, HasFactorMarginals, IntoValue, Operation, Query, Tape,
    Tensors, not_differentiable,
};
use crate::query::{Forecast, Forecasts};
use crate::run::Run;
use crate::values::Values;

/// A method for a kind of model. The library's rows are in the catalogue; other crates add theirs with
/// [`super::register`].
///
/// A row is generic over the type of the method and the types of the models (a kind with two precisions has
/// two types) and distinguishes the types at run time:
///
/// ```
/// use zhat::catalogue::Row;
/// use zhat::FactorGraph;
/// use zhat::exact::Elimination;
/// let row = Row::new::<Elimination>("my-elimination", FactorGraph::KIND, "elimination under another name")
///     .forecasts::<Elimination, FactorGraph>()
///     .log_partition::<Elimination, FactorGraph>();
/// assert_eq!(row.queries().map(|query| query.name()).collect::<Vec<_>>(), ["log_partition"]);
/// ```
pub struct Row {
    /// The name for `--method` and `method=`.
    pub method: &'static str,
    /// The kind of model.
    pub kind: Kind,
    /// One-line description.
    pub about: &'static str,
    /// Its options with their default values.
    pub options: fn() -> Value,
    /// The ranges of its numeric options.
    pub ranges: &'static [(&'static str, Range)],
    variants: fn(&str) -> Vec<String>,
    forecasters: Vec<(TypeId, Forecaster)>,
    answers: Vec<(Query, TypeId, Answerer)>,
    comparers: Vec<(TypeId, &'static [Operation], Comparer)>,
    differentiators: Vec<Differentiator>,
    describer: Option<Describer>,
    /// Whether it runs until a given error is reached.
    pub(super) has_target_error: bool,
    divisible: &'static [Query],
    pub(super) first_look: Option<u64>,
}

type Forecaster = fn(&'static str, &Model, Query, &Settings, &Run) -> Result<Forecast>;
type Answerer = fn(&'static str, &Model, Query, &Settings, &Run) -> Result<AnyAnswer>;
type Comparer = fn(&'static str, [&Model; 2], Operation, &Settings, &Run) -> Result<AnyAnswer>;
type Describer = fn(&Model, &Run) -> Summary;

/// The values of an operation, one per item, and the tape of its gradients.
pub type Differentiated = (Vec<f64>, AnyTape);

/// A tape whose gradients are named tensors: for each model, one tensor per parameter.
pub type AnyTape = Tape<Tensors>;

/// The values of an operation, one per item, and the gradients for each model.
pub type Gradients = (Vec<f64>, Vec<Tensors>);

/// How a row differentiates operations on one type of model.
pub(super) struct Differentiator {
    model: TypeId,
    operations: &'static [Operation],
    pub differentiate: fn(&Asked<'_>) -> Result<Differentiated>,
    pub both: fn(&Asked<'_>, &[f64]) -> Result<Gradients>,
}

/// A requested differentiable operation.
pub(super) struct Asked<'a> {
    pub method: &'static str,
    pub operation: Operation,
    pub models: &'a [Model],
    pub settings: &'a Settings,
    /// Options that are arrays.
    pub arrays: &'a [(String, Values<f64>)],
    pub run: &'a Run,
}

impl Asked<'_> {
    /// The configured method and the typed models; an error if the memory budget is too small.
    fn of_types<C: Options + Forecasts<M>, M: AnyModel>(&self) -> Result<(C, Vec<Arc<M>>)> {
        let mut config = options::read::<C>(self.method, self.settings)?;
        for (option, numbers) in self.arrays {
            config.attach(option, numbers.clone())?;
        }
        let other = || Error::argument("models", "expected two of the same kind and the same precision");
        let models: Vec<Arc<M>> =
            self.models.iter().map(|model| model.shared().ok_or_else(other)).collect::<Result<_>>()?;
        if let Some(first) = models.first() {
            let forecast = config.forecast(first, Query::FactorMarginals, self.run);
            self.run.require_memory(self.method, forecast.bytes)?;
        }
        Ok((config, models))
    }
}

/// A gradient as named tensors.
fn named<G: IntoValue<M>, M>(gradient: G, model: &M) -> Tensors {
    match gradient.into_value(model) {
        AnyValue::Tensors(tensors) => tensors,
        _ => Tensors { list: Vec::new(), radius: None },
    }
}

/// The model as this type; the row has checked the type before.
fn of_type<M: AnyModel>(model: &Model) -> Result<&M> {
    model.get::<M>().ok_or_else(|| Error::argument("model", "is of another type than the method takes"))
}

macro_rules! queries {
    ($($(#[$doc:meta])* $method:ident, $trait:ident, $example:expr, $value:ident of $bound:ident, $call:expr;)*) => {
        $($(#[$doc])*
        pub fn $method<C, M>(mut self) -> Self
        where
            C: Options + query::$trait<M>,
            M: AnyModel + query::$bound,
            M::$value: IntoValue<M>,
        {
            fn answer<C, M>(
                name: &'static str,
                model: &Model,
                query: Query,
                settings: &Settings,
                run: &Run,
            ) -> Result<AnyAnswer>
            where
                C: Options + query::$trait<M>,
                M: AnyModel + query::$bound,
                M::$value: IntoValue<M>,
            {
                let (config, model) = (options::read::<C>(name, settings)?, of_type::<M>(model)?);
                let call: fn(&C, &M, Query, &Run) -> Result<crate::answer::Answer<M::$value>> = $call;
                Ok(call(&config, model, query, run)?.map(|value| value.into_value(model)))
            }
            self.answers.push(($example, TypeId::of::<M>(), answer::<C, M>));
            self
        })*
    };
}

impl Row {
    /// A row for a method with options of type `C`; the queries that it answers are added afterwards.
    pub fn new<C: Options>(method: &'static str, kind: Kind, about: &'static str) -> Self {
        Row {
            method,
            kind,
            about,
            options: || serde_json::to_value(C::default()).unwrap_or_default(),
            ranges: C::RANGES,
            variants: options::variants::<C>,
            forecasters: Vec::new(),
            answers: Vec::new(),
            comparers: Vec::new(),
            differentiators: Vec::new(),
            describer: None,
            has_target_error: false,
            divisible: &[],
            first_look: None,
        }
    }

    /// Adds forecasts for models of type `M`; every row needs them.
    pub fn forecasts<C, M>(mut self) -> Self
    where
        C: Options + Forecasts<M>,
        M: AnyModel,
    {
        fn forecast<C: Options + Forecasts<M>, M: AnyModel>(
            name: &'static str,
            model: &Model,
            query: Query,
            settings: &Settings,
            run: &Run,
        ) -> Result<Forecast> {
            let (config, model) = (options::read::<C>(name, settings)?, of_type::<M>(model)?);
            Ok(config.forecast(model, query, run))
        }
        self.forecasters.push((TypeId::of::<M>(), forecast::<C, M>));
        self
    }

    queries! {
        /// Adds the query log Z.
        log_partition, LogPartition, Query::LogPartition, Number of Answers,
            |config, model, _, run| config.log_partition(model, run);
        /// Adds marginals.
        marginals, Marginals, Query::Marginals, Marginals of HasMarginals,
            |config, model, _, run| config.marginals(model, run);
        /// Adds factor marginals.
        factor_marginals, FactorMarginals, Query::FactorMarginals,
            FactorMarginals of HasFactorMarginals, |config, model, _, run| config.factor_marginals(model, run);
        /// Adds entropy.
        entropy, Entropy, Query::Entropy, Number of Answers,
            |config, model, _, run| config.entropy(model, run);
        /// Adds the best state.
        map, Map, Query::Map, Best of HasStates, |config, model, _, run| config.map(model, run);
        /// Adds the k best states.
        k_best, KBest, Query::KBest(1), Ranked of HasStates,
            |config, model, query, run| config.k_best(model, query.count(), run);
        /// Adds sampling.
        sample, Sample, Query::Sample(1), Samples of HasStates,
            |config, model, query, run| config.sample(model, query.count(), run);
    }

    /// Adds comparisons of two models: KL divergence and cross-entropy.
    pub fn divergence<C, M>(mut self) -> Self
    where
        C: Options + query::Divergence<M>,
        M: AnyModel + query::Answers,
        M::Number: IntoValue<M>,
    {
        fn compare<C, M>(
            name: &'static str,
            [p, q]: [&Model; 2],
            operation: Operation,
            settings: &Settings,
            run: &Run,
        ) -> Result<AnyAnswer>
        where
            C: Options + query::Divergence<M>,
            M: AnyModel + query::Answers,
            M::Number: IntoValue<M>,
        {
            let config = options::read::<C>(name, settings)?;
            let (p, q) = (of_type::<M>(p)?, of_type::<M>(q)?);
            let answer = match operation {
                Operation::Kl => config.kl(p, q, run)?,
                _ => config.cross_entropy(p, q, run)?,
            };
            Ok(answer.map(|value| value.into_value(p)))
        }
        const OPERATIONS: &[Operation] = &[Operation::CrossEntropy, Operation::Kl];
        self.comparers.push((TypeId::of::<M>(), OPERATIONS, compare::<C, M>));
        self
    }

    /// Adds expectations of the score of a second model.
    pub fn expectation<C, M>(mut self) -> Self
    where
        C: Options + query::Expectation<M>,
        M: AnyModel + query::Answers,
        M::Number: IntoValue<M>,
    {
        fn average<C, M>(
            name: &'static str,
            [model, scores]: [&Model; 2],
            _: Operation,
            settings: &Settings,
            run: &Run,
        ) -> Result<AnyAnswer>
        where
            C: Options + query::Expectation<M>,
            M: AnyModel + query::Answers,
            M::Number: IntoValue<M>,
        {
            let config = options::read::<C>(name, settings)?;
            let (model, scores) = (of_type::<M>(model)?, of_type::<M>(scores)?);
            Ok(config.expectation(model, scores, run)?.map(|value| value.into_value(model)))
        }
        self.comparers.push((TypeId::of::<M>(), &[Operation::Expectation], average::<C, M>));
        self
    }

    /// Adds differentiable operations.
    pub fn differentiable<C, M>(mut self) -> Self
    where
        C: Options + Differentiable<M>,
        M: AnyModel + HasFactorMarginals,
        M::FactorMarginals: IntoValue<M> + 'static,
    {
        fn differentiate<C, M>(asked: &Asked<'_>) -> Result<Differentiated>
        where
            C: Options + Differentiable<M>,
            M: AnyModel + HasFactorMarginals,
            M::FactorMarginals: IntoValue<M> + 'static,
        {
            let (config, models) = asked.of_types::<C, M>()?;
            let borrowed: Vec<&M> = models.iter().map(|model| &**model).collect();
            let (values, tape) = config.differentiate(asked.operation, &borrowed, asked.run)?;
            Ok((values, tape.map(move |i, gradient| named(gradient, &*models[i]))))
        }
        fn both<C, M>(asked: &Asked<'_>, cotangent: &[f64]) -> Result<Gradients>
        where
            C: Options + Differentiable<M>,
            M: AnyModel + HasFactorMarginals,
            M::FactorMarginals: IntoValue<M> + 'static,
        {
            let (config, models) = asked.of_types::<C, M>()?;
            let borrowed: Vec<&M> = models.iter().map(|model| &**model).collect();
            let (values, gradients) =
                config.value_and_gradients(asked.operation, &borrowed, cotangent, asked.run)?;
            let each = gradients.into_iter().zip(&borrowed);
            Ok((values, each.map(|(gradient, model)| named(gradient, *model)).collect()))
        }
        self.differentiators.push(Differentiator {
            model: TypeId::of::<M>(),
            operations: C::OPERATIONS,
            differentiate: differentiate::<C, M>,
            both: both::<C, M>,
        });
        self
    }

    /// Adds figures about a model that need the method's own preparation, such as the width of an elimination
    /// order.
    pub fn describes(mut self, describer: fn(&Model, &Run) -> Summary) -> Self {
        self.describer = Some(describer);
        self
    }

    /// Declares that the method runs until the error given in its options is reached; `auto` takes the
    /// fastest such method.
    pub fn with_target_error(mut self) -> Self {
        self.has_target_error = true;
        self
    }

    /// Declares queries whose work can be divided over processes and machines ([`super::Division`]).
    pub(super) fn divisible(mut self, queries: &'static [Query]) -> Self {
        self.divisible = queries;
        self
    }

    /// Declares that the method looks at its results after this number of units and then whenever their number has
    /// doubled, and ends its work when the error is small enough.
    pub(super) fn ending_at_looks(mut self, first: u64) -> Self {
        self.first_look = Some(first);
        self
    }

    /// The queries whose work can be divided over processes and machines.
    pub fn divisible_queries(&self) -> &'static [Query] {
        self.divisible
    }

    /// The queries it answers, each once, whatever the number of samples or states.
    pub fn queries(&self) -> impl Iterator<Item = Query> {
        let mut seen: Vec<Query> = Vec::new();
        self.answers.iter().for_each(|(query, ..)| {
            if !seen.contains(query) {
                seen.push(*query);
            }
        });
        seen.into_iter()
    }

    /// Whether it answers this query.
    pub fn answers(&self, query: Query) -> bool {
        self.answers.iter().any(|(own, ..)| own.name() == query.name())
    }

    /// The names that an option accepts, if it is a choice between names.
    pub fn variants(&self, option: &str) -> Vec<String> {
        (self.variants)(option)
    }

    /// Whether it has the value of an operation on two models of these types.
    pub fn compares(&self, operation: Operation, p: &Model, q: &Model) -> bool {
        p.type_of() == q.type_of() && self.comparer(operation, p).is_some()
    }

    fn comparer(&self, operation: Operation, model: &Model) -> Option<Comparer> {
        let mut own = self.comparers.iter().filter(|(id, ..)| *id == model.type_of());
        own.find(|(_, operations, _)| operations.contains(&operation)).map(|(.., compare)| *compare)
    }

    /// Applicability, estimated memory and time, and kind of guarantee.
    ///
    /// # Errors
    /// If the model is of another kind or an option is out of range.
    pub fn forecast(&self, model: &Model, query: Query, settings: &Settings, run: &Run) -> Result<Forecast> {
        let found = self.forecasters.iter().find(|(id, _)| *id == model.type_of());
        let (_, forecast) = found.ok_or_else(|| super::unsupported(self.method, query, model.kind()))?;
        forecast(self.method, model, query, settings, run)
    }

    pub(super) fn run(
        &self,
        model: &Model,
        query: Query,
        settings: &Settings,
        run: &Run,
    ) -> Result<AnyAnswer> {
        let own =
            |(of, id, _): &&(Query, TypeId, Answerer)| of.name() == query.name() && *id == model.type_of();
        let found = self.answers.iter().find(own);
        let (.., answer) = found.ok_or_else(|| super::unsupported(self.method, query, model.kind()))?;
        answer(self.method, model, query, settings, run)
    }

    /// An operation on two models: KL(p ‖ q), the cross-entropy, or the expectation of the score of q under p.
    ///
    /// # Errors
    /// If the method does not compare these models, or their shapes differ.
    pub fn compare(
        &self,
        operation: Operation,
        models: [&Model; 2],
        settings: &Settings,
        run: &Run,
    ) -> Result<AnyAnswer> {
        let compare = self.comparer(operation, models[0]).ok_or_else(|| {
            let message = format!("`{}` does not compare models of kind {}", self.method, models[0].kind());
            Error::argument("method", message)
        })?;
        compare(self.method, models, operation, settings, run)
    }

    /// Whether it differentiates an operation on models of this type.
    pub fn differentiates(&self, operation: Operation, model: &Model) -> bool {
        let own = |own: &Differentiator| own.model == model.type_of() && own.operations.contains(&operation);
        self.differentiators.iter().any(own)
    }

    pub(super) fn differentiator(&self, asked: &Asked<'_>) -> Result<&Differentiator> {
        let own =
            |own: &&Differentiator| asked.models.first().is_some_and(|model| own.model == model.type_of());
        let missing = || not_differentiable(self.method, asked.operation, asked.models.len());
        self.differentiators.iter().find(own).ok_or_else(missing)
    }

    /// Figures from the method's preparation of a model.
    pub(super) fn description(&self, model: &Model, run: &Run) -> Option<Summary> {
        self.describer.map(|describe| describe(model, run))
    }
}

/// A row from the type of a method, the kind of model (in both precisions if stated) and the query traits.
macro_rules! row {
    ($method:literal, $kind:ident<f32 | f64>, $config:ty, $queries:tt, $about:literal) => {{
        let row = Row::new::<$config>($method, $kind::KIND, $about);
        let row = row!(@model row, $config, $kind<f32>, $queries);
        row!(@model row, $config, $kind<f64>, $queries)
    }};
    ($method:literal, $kind:ident, $config:ty, $queries:tt, $about:literal) => {{
        let row = Row::new::<$config>($method, $kind::KIND, $about);
        row!(@model row, $config, $kind, $queries)
    }};
    (@model $row:ident, $config:ty, $model:ty, [$($query:ident),*]) => {{
        let row = $row.forecasts::<$config, $model>();
        $(let row = row!(@query row, $query, $config, $model);)*
        row
    }};
    (@query $row:ident, LogPartition, $config:ty, $model:ty) => { $row.log_partition::<$config, $model>() };
    (@query $row:ident, Marginals, $config:ty, $model:ty) => { $row.marginals::<$config, $model>() };
    (@query $row:ident, FactorMarginals, $config:ty, $model:ty) => { $row.factor_marginals::<$config, $model>() };
    (@query $row:ident, Entropy, $config:ty, $model:ty) => { $row.entropy::<$config, $model>() };
    (@query $row:ident, Map, $config:ty, $model:ty) => { $row.map::<$config, $model>() };
    (@query $row:ident, KBest, $config:ty, $model:ty) => { $row.k_best::<$config, $model>() };
    (@query $row:ident, Sample, $config:ty, $model:ty) => { $row.sample::<$config, $model>() };
    (@query $row:ident, Differentiable, $config:ty, $model:ty) => { $row.differentiable::<$config, $model>() };
    (@query $row:ident, Divergence, $config:ty, $model:ty) => { $row.divergence::<$config, $model>() };
    (@query $row:ident, Expectation, $config:ty, $model:ty) => { $row.expectation::<$config, $model>() };
}

pub(super) use row;
